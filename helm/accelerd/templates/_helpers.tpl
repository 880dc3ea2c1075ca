{{- define "accelerd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "accelerd.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "accelerd.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "accelerd.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Name of the headless service, which has an address for each pod. */ -}}
{{- define "accelerd.podsService" -}}
{{- printf "%s-pods" (include "accelerd.fullname" . | trunc 58 | trimSuffix "-") }}
{{- end }}

{{- define "accelerd.selectorLabels" -}}
app.kubernetes.io/name: {{ include "accelerd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "accelerd.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "accelerd.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "accelerd.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "accelerd.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "accelerd.image" -}}
{{- $suffix := ternary "-cpu" "" (eq (int .Values.gpu.count) 0) }}
{{- printf "%s:%s" .Values.image.repository (default (printf "%s%s" .Chart.AppVersion $suffix) .Values.image.tag) }}
{{- end }}

{{- /* Port of a "host:port" address. */ -}}
{{- define "accelerd.port" -}}
{{- regexFind "[0-9]+$" . }}
{{- end }}

{{- /* Folder of the mounted secrets. Whole folders are mounted, because the kubelet does not update a subPath. */ -}}
{{- define "accelerd.secrets" -}}
/run/secrets/accelerd
{{- end }}

{{- /* The settings: those of tls and auth, overridden by config. Fails if the daemon would refuse them. */ -}}
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
{{- $settings = mergeOverwrite $settings (deepCopy .Values.config) }}
{{- include "accelerd.check" . }}
{{- $auth = default dict $settings.auth }}
{{- $is_loopback := regexMatch "^(127\\.|\\[::1\\])" $settings.server.listen }}
{{- if not (or $auth.insecure $is_loopback) }}
{{- if not $auth.principals }}
{{- fail "everyone who reaches the service could do everything: set tls.secretName and auth.principalsSecretName (see SECURITY.md), or auth.insecure=true if the network is protected by other means" }}
{{- end }}
{{- if not (default dict $settings.tls).certificate }}
{{- fail "auth.principalsSecretName needs tls.secretName, because tokens are readable in plaintext; or set auth.insecure=true if the network encrypts by other means" }}
{{- end }}
{{- end }}
{{- toToml $settings }}
{{- end }}

{{- /* Whether the gRPC port has TLS. */ -}}
{{- define "accelerd.hasTls" -}}
{{- if or .Values.tls.secretName (dig "tls" "certificate" "" .Values.config) }}true{{ end }}
{{- end }}

{{- /* Whether the daemon may serve without principals, or tokens in plaintext. */ -}}
{{- define "accelerd.isInsecure" -}}
{{- if or .Values.auth.insecure (dig "auth" "insecure" false .Values.config) }}true{{ end }}
{{- end }}

{{- define "accelerd.appProtocol" -}}
{{- ternary "https" "kubernetes.io/h2c" (eq (include "accelerd.hasTls" .) "true") }}
{{- end }}
