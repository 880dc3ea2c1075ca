{{- /* Folder of durable collections, a volume; empty if they are in memory only. */ -}}
{{- define "accelerd.dataDir" -}}
{{- with dig "store" "data_dir" "" .Values.config }}{{ clean . }}{{ end }}
{{- end }}

{{- /* Folder of the image with the kernels of all supported GPUs. */ -}}
{{- define "accelerd.imageKernels" -}}
/var/cache/accelerd/kernels
{{- end }}

{{- define "accelerd.kernelCache" -}}
{{- with dig "cuda" "kernel_cache" "" .Values.config }}{{ clean . }}{{ end }}
{{- end }}

{{- /* Whether a GPU runs kernels of the image; those generated at run time then need a volume. */ -}}
{{- define "accelerd.usesImageKernels" -}}
{{- $is_image := eq (include "accelerd.kernelCache" .) (include "accelerd.imageKernels" .) }}
{{- if and $is_image (gt (int .Values.gpu.count) 0) }}true{{ end }}
{{- end }}

{{- /* Fails if a value would have no effect, or the daemon could not write where it is told to. */ -}}
{{- define "accelerd.check" -}}
{{- if and .Values.persistence.enabled (not (include "accelerd.dataDir" .)) }}
{{- fail "persistence.enabled needs config.store.data_dir, such as /var/lib/accelerd" }}
{{- end }}
{{- $health := .Values.config.server.health_listen }}
{{- if regexMatch "^(127\\.|\\[::1\\])" $health }}
{{- fail (printf "config.server.health_listen is %s, where the kubelet's probes cannot reach it: expected an address such as 0.0.0.0:7435" $health) }}
{{- end }}
{{- $derived := dict "ACCELERD__SERVER__LISTEN" "config.server.listen" "ACCELERD__SERVER__ADMIN_LISTEN" "config.server.admin_listen" }}
{{- $_ := set $derived "ACCELERD__SERVER__HEALTH_LISTEN" "config.server.health_listen" }}
{{- $_ := set $derived "ACCELERD__HTTP__LISTEN" "config.http.listen" }}
{{- $_ := set $derived "ACCELERD__STORE__DATA_DIR" "config.store.data_dir" }}
{{- $_ := set $derived "ACCELERD__CUDA__KERNEL_CACHE" "config.cuda.kernel_cache" }}
{{- range .Values.env }}
{{- with get $derived .name }}
{{- fail (printf "set %s instead of the variable in env: ports and volumes of the pod follow it" .) }}
{{- end }}
{{- end }}
{{- if .Values.securityContext.readOnlyRootFilesystem }}
{{- include "accelerd.checkFolders" . }}
{{- end }}
{{- end }}

{{- /* Fails if a folder that the daemon writes is on the read-only root. */ -}}
{{- define "accelerd.checkFolders" -}}
{{- $writable := list "/tmp" }}
{{- with include "accelerd.dataDir" . }}{{ $writable = append $writable . }}{{ end }}
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
