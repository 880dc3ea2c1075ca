{{- /* Fails if a value would have no effect, or the daemon could not write where it is told to. */ -}}
{{- define "accelerd.check" -}}
{{- if and .Values.persistence.enabled (not (include "accelerd.dataDir" .)) }}
{{- fail "persistence.enabled needs config.store.data_dir, such as /var/lib/accelerd" }}
{{- end }}
{{- $health := .Values.config.server.health_listen }}
{{- if include "accelerd.isLoopback" $health }}
{{- fail (printf "config.server.health_listen is %s, where the kubelet's probes cannot reach it: expected an address such as 0.0.0.0:7435" $health) }}
{{- end }}
{{- include "accelerd.checkVariables" . }}
{{- include "accelerd.checkScaling" . }}
{{- include "accelerd.checkRoutes" . }}
{{- include "accelerd.checkMonitors" . }}
{{- include "accelerd.checkModels" . }}
{{- if .Values.securityContext.readOnlyRootFilesystem }}
{{- include "accelerd.checkFolders" . }}
{{- end }}
{{- end }}

{{- /* Fails if a variable would override a setting of which other objects are built. */ -}}
{{- define "accelerd.checkVariables" -}}
{{- $settings := list "server.listen" "server.admin_listen" "server.health_listen" "server.uds_path" "http.listen" "http.hosts" }}
{{- $settings = concat $settings (list "store.data_dir" "store.snapshot_url" "store.snapshot_folders" "cuda.kernel_cache") }}
{{- $settings = concat $settings (list "models.folders" "models.hub.cache" "models.hub.endpoint" "models.hub.offline" "drain.endpoint_delay" "drain.timeout") }}
{{- $settings = concat $settings (list "tls.certificate" "tls.private_key" "tls.client_ca" "tls.client_certificates") }}
{{- $settings = concat $settings (list "auth.principals" "auth.insecure") }}
{{- range .Values.extraEnv }}
{{- $name := .name }}
{{- range $settings }}
{{- if eq $name (printf "ACCELERD__%s" (upper . | replace "." "__")) }}
{{- fail (printf "set config.%s instead of the variable in extraEnv: other parts of the release follow it" .) }}
{{- end }}
{{- end }}
{{- if and (eq $name "HF_TOKEN") $.Values.hub.tokenSecretName }}
{{- fail "HF_TOKEN is in extraEnv, and hub.tokenSecretName sets it: choose one" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "accelerd.checkScaling" -}}
{{- if and .Values.autoscaling.enabled .Values.keda.enabled }}
{{- fail "autoscaling.enabled and keda.enabled would both set the number of pods: choose one" }}
{{- end }}
{{- if and .Values.persistence.enabled (or .Values.autoscaling.enabled .Values.keda.enabled) }}
{{- fail "autoscaling and keda do not fit persistence.enabled: a new pod has no collections, and those of a pod that is removed cannot be reached" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (not .Values.autoscaling.metrics) (eq (int .Values.autoscaling.targetCPUUtilizationPercentage) 0) }}
{{- fail "autoscaling.enabled needs autoscaling.targetCPUUtilizationPercentage or autoscaling.metrics" }}
{{- end }}
{{- range $name := list "autoscaling" "keda" }}
{{- with get $.Values $name }}
{{- if and .enabled (gt (int .minReplicas) (int .maxReplicas)) }}
{{- fail (printf "%s.minReplicas is %d, and %s.maxReplicas %d: expected at most that" $name (int .minReplicas) $name (int .maxReplicas)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "accelerd.checkRoutes" -}}
{{- $http := dict "httpRoute.enabled" .Values.httpRoute.enabled "ingress.http.enabled" .Values.ingress.http.enabled }}
{{- range $name, $enabled := $http }}
{{- if and $enabled (not $.Values.config.http.listen) }}
{{- fail (printf "%s needs config.http.listen, such as 0.0.0.0:7436" $name) }}
{{- end }}
{{- end }}
{{- range $name := list "grpcRoute" "httpRoute" }}
{{- $route := get $.Values $name }}
{{- if and $route.enabled (not $route.parentRefs) }}
{{- fail (printf "%s.enabled needs %s.parentRefs, the gateways of the route" $name $name) }}
{{- end }}
{{- end }}
{{- range $name := list "http" "grpc" }}
{{- $ingress := get $.Values.ingress $name }}
{{- if and $ingress.enabled (not $ingress.hosts) }}
{{- fail (printf "ingress.%s.enabled needs ingress.%s.hosts" $name $name) }}
{{- end }}
{{- end }}
{{- if and .Values.grpcRoute.enabled .Values.httpRoute.enabled (eq (toJson .Values.grpcRoute.parentRefs) (toJson .Values.httpRoute.parentRefs)) }}
{{- $one := .Values.grpcRoute.hostnames }}
{{- $other := .Values.httpRoute.hostnames }}
{{- if or (not $one) (not $other) (lt (len (uniq (concat $one $other))) (add (len $one) (len $other))) }}
{{- fail "grpcRoute and httpRoute have a listener and a host name in common, where a gateway accepts one of them only: set other hostnames or parentRefs" }}
{{- end }}
{{- end }}
{{- include "accelerd.checkHosts" . }}
{{- if .Values.backendTLS.enabled }}
{{- if not (include "accelerd.hasTls" .) }}
{{- fail "backendTLS.enabled needs tls.secretName: the pods serve plaintext" }}
{{- end }}
{{- if not .Values.backendTLS.hostname }}
{{- fail "backendTLS.enabled needs backendTLS.hostname, a name in the certificate of tls.secretName" }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Fails if the daemon would refuse a host name that is routed to it. */ -}}
{{- define "accelerd.checkHosts" -}}
{{- $accepted := dig "hosts" list .Values.config.http }}
{{- $routed := list }}
{{- if .Values.httpRoute.enabled }}{{ $routed = concat $routed .Values.httpRoute.hostnames }}{{ end }}
{{- if .Values.ingress.http.enabled }}{{ $routed = concat $routed .Values.ingress.http.hosts }}{{ end }}
{{- range $routed }}
{{- if and $accepted (not (has . $accepted)) }}
{{- fail (printf "%s is routed to the HTTP port, which refuses it: add it to config.http.hosts" .) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "accelerd.checkMonitors" -}}
{{- $monitors := list .Values.metrics.serviceMonitor.enabled .Values.metrics.podMonitor.enabled }}
{{- if eq (len (compact $monitors)) 2 }}
{{- fail "metrics.serviceMonitor and metrics.podMonitor would scrape each pod twice: enable one" }}
{{- end }}
{{- if and (has true $monitors) (include "accelerd.isLoopback" .Values.config.server.admin_listen) }}
{{- fail (printf "config.server.admin_listen is %s, where Prometheus cannot reach it: expected an address such as 0.0.0.0:7434" .Values.config.server.admin_listen) }}
{{- end }}
{{- end }}

{{- define "accelerd.checkModels" -}}
{{- if and .Values.models.download.files (not .Values.models.volume) }}
{{- fail "models.download.files needs models.volume, such as {emptyDir: {}}" }}
{{- end }}
{{- if and .Values.models.download.files (dig "persistentVolumeClaim" "readOnly" false .Values.models.volume) }}
{{- fail "models.download.files are written to models.volume, which is readOnly" }}
{{- end }}
{{- end }}

{{- /* Fails if a folder that the daemon writes is on the read-only root. */ -}}
{{- define "accelerd.checkFolders" -}}
{{- $writable := list "/tmp" }}
{{- with include "accelerd.dataDir" . }}{{ $writable = append $writable . }}{{ end }}
{{- if and .Values.models.volume (not .Values.models.readOnly) }}{{ $writable = append $writable (clean .Values.models.mountPath) }}{{ end }}
{{- range .Values.extraVolumeMounts }}
{{- if not .readOnly }}{{ $writable = append $writable (clean .mountPath) }}{{ end }}
{{- end }}
{{- $config := .Values.config }}
{{- $written := list }}
{{- if and (gt (int .Values.gpu.count) 0) (not (include "accelerd.usesImageKernels" .)) }}
{{- $written = append $written (list "config.cuda.kernel_cache" (dig "cuda" "kernel_cache" "" $config)) }}
{{- end }}
{{- if not (dig "models" "hub" "offline" false $config) }}
{{- $written = append $written (list "config.models.hub.cache" (dig "models" "hub" "cache" "" $config)) }}
{{- end }}
{{- with dig "server" "uds_path" "" $config }}
{{- $written = append $written (list "config.server.uds_path" (dir .)) }}
{{- end }}
{{- range prepend (dig "store" "snapshot_folders" list $config) (dig "store" "snapshot_url" "" $config) }}
{{- if hasPrefix "file://" . }}
{{- $written = append $written (list "a folder of snapshots in config.store" (trimPrefix "file://" .)) }}
{{- end }}
{{- end }}
{{- range $written }}
{{- $name := first . }}
{{- with last . }}
{{- $folder := clean . }}
{{- $is_writable := false }}
{{- range $writable }}
{{- if hasPrefix (printf "%s/" .) (printf "%s/" $folder) }}{{ $is_writable = true }}{{ end }}
{{- end }}
{{- if not $is_writable }}
{{- fail (printf "%s is %s, which is on the read-only root of the container: choose a folder below one of %s, or mount a writable volume there by extraVolumes and extraVolumeMounts" $name $folder (join ", " $writable)) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
