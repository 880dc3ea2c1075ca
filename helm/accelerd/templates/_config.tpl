{{- /* Folder of the mounted secrets. Whole folders are mounted, because the kubelet does not update a subPath. */ -}}
{{- define "accelerd.secrets" -}}
/run/secrets/accelerd
{{- end }}

{{- /* The settings: those of tls, auth and models, overridden by config. Fails if the daemon would refuse them. */ -}}
{{- define "accelerd.config" -}}
{{- $folder := include "accelerd.secrets" . }}
{{- $settings := dict }}
{{- with .Values.tls.secretName }}
{{- $tls := dict "certificate" (printf "%s/tls/tls.crt" $folder) "private_key" (printf "%s/tls/tls.key" $folder) }}
{{- $_ := set $settings "tls" $tls }}
{{- end }}
{{- if .Values.tls.clientCASecretName }}
{{- if not .Values.tls.secretName }}
{{- fail "tls.clientCASecretName needs tls.secretName: client certificates are part of TLS" }}
{{- end }}
{{- $_ := set $settings.tls "client_ca" (printf "%s/client-ca/ca.crt" $folder) }}
{{- $_ := set $settings.tls "client_certificates" .Values.tls.clientCertificates }}
{{- end }}
{{- $auth := dict }}
{{- if .Values.auth.principalsSecretName }}
{{- $_ := set $auth "principals" (printf "%s/principals/principals.toml" $folder) }}
{{- end }}
{{- if .Values.auth.insecure }}
{{- $_ := set $auth "insecure" true }}
{{- end }}
{{- if $auth }}
{{- $_ := set $settings "auth" $auth }}
{{- end }}
{{- if .Values.models.volume }}
{{- $_ := set $settings "models" (dict "folders" (list .Values.models.mountPath)) }}
{{- end }}
{{- $settings = mergeOverwrite $settings (deepCopy .Values.config) }}
{{- include "accelerd.check" . }}
{{- include "accelerd.checkCallers" $settings }}
{{- include "accelerd.wholeNumbers" $settings }}
{{- toToml $settings }}
{{- end }}

{{- /* Replaces whole numbers in a dict, which Helm reads as floating-point ones: the daemon refuses 3.0 and 1e+06 for many settings. */ -}}
{{- define "accelerd.wholeNumbers" -}}
{{- $dict := . }}
{{- range $key, $value := $dict }}
{{- if kindIs "map" $value }}
{{- include "accelerd.wholeNumbers" $value }}
{{- else if kindIs "slice" $value }}
{{- $items := list }}
{{- range $value }}
{{- $item := dict "it" . }}
{{- include "accelerd.wholeNumbers" $item }}
{{- $items = append $items $item.it }}
{{- end }}
{{- $_ := set $dict $key $items }}
{{- else if kindIs "float64" $value }}
{{- if eq $value (floor $value) }}{{ $_ := set $dict $key (int64 $value) }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails if the daemon would refuse to serve callers from other machines. */ -}}
{{- define "accelerd.checkCallers" -}}
{{- $auth := default dict .auth }}
{{- $reachable := false }}
{{- range compact (list .server.listen .http.listen) }}
{{- if not (include "accelerd.isLoopback" .) }}{{ $reachable = true }}{{ end }}
{{- end }}
{{- if and $reachable (not $auth.insecure) }}
{{- if not $auth.principals }}
{{- fail "everyone who reaches the service could do everything: set tls.secretName and auth.principalsSecretName (see SECURITY.md), or auth.insecure=true if the network is protected by other means" }}
{{- end }}
{{- if not (default dict .tls).certificate }}
{{- fail "auth.principalsSecretName needs tls.secretName, because tokens are readable in plaintext; or set auth.insecure=true if the network encrypts by other means" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Milliseconds of a duration such as "1m 30s", rounded up. */ -}}
{{- define "accelerd.milliseconds" -}}
{{- $total := 0 }}
{{- if not (regexMatch "^([0-9]+ *[a-z]+ *)+$" .) }}
{{- fail (printf "expected a duration with a unit, such as 30s, got %s" .) }}
{{- end }}
{{- $units := dict "ns" 0 "us" 0 "ms" 1 "msec" 1 "s" 1000 "sec" 1000 "second" 1000 "m" 60000 "min" 60000 "minute" 60000 "h" 3600000 "hr" 3600000 "hour" 3600000 "d" 86400000 "day" 86400000 }}
{{- range regexFindAll "[0-9]+ *[a-z]+" . -1 }}
{{- $unit := regexFind "[a-z]+" . }}
{{- $factor := get $units (ternary $unit (trimSuffix "s" $unit) (hasKey $units $unit)) }}
{{- if not (kindIs "int" $factor) }}
{{- fail (printf "expected a duration with a unit of ms, s, m, h or d, got %s" .) }}
{{- end }}
{{- $total = add $total (mul (int (regexFind "[0-9]+" .)) $factor) }}
{{- end }}
{{- $total }}
{{- end }}

{{- /* Seconds from the end of a pod to the end of its daemon. */ -}}
{{- define "accelerd.drainSeconds" -}}
{{- $drain := default dict .Values.config.drain }}
{{- $delay := include "accelerd.milliseconds" (default "5s" $drain.endpoint_delay) | int }}
{{- $timeout := include "accelerd.milliseconds" (default "30s" $drain.timeout) | int }}
{{- add .Values.preStopSeconds (div (add $delay $timeout 999) 1000) }}
{{- end }}

{{- define "accelerd.gracePeriod" -}}
{{- $drain := include "accelerd.drainSeconds" . | int }}
{{- if kindIs "invalid" .Values.terminationGracePeriodSeconds }}
{{- add $drain 10 }}
{{- else if le (int .Values.terminationGracePeriodSeconds) $drain }}
{{- fail (printf "terminationGracePeriodSeconds is %d, in which the daemon is killed before it has drained: expected more than preStopSeconds, config.drain.endpoint_delay and config.drain.timeout, %d in sum" (int .Values.terminationGracePeriodSeconds) $drain) }}
{{- else }}
{{- int .Values.terminationGracePeriodSeconds }}
{{- end }}
{{- end }}
