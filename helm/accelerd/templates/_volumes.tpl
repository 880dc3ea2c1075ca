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

{{- /* A volume with a secret, readable by the group of the pod: (list NAME SECRET) and optionally its only key. */ -}}
{{- define "accelerd.secretVolume" -}}
- name: {{ index . 0 }}
  secret:
    secretName: {{ index . 1 }}
    defaultMode: 0440
    {{- if gt (len .) 2 }}
    # Without other keys, such as an authority's private key.
    items:
      - key: {{ index . 2 }}
        path: {{ index . 2 }}
    {{- end }}
{{- end }}

{{- define "accelerd.volumeMounts" -}}
- name: config
  mountPath: /etc/accelerd
  readOnly: true
{{- with include "accelerd.dataDir" . }}
- name: data
  mountPath: {{ . }}
{{- end }}
{{- if include "accelerd.usesImageKernels" . }}
# The kernels in the image stay where they are, read-only.
- name: kernels
  mountPath: {{ include "accelerd.imageKernels" . }}/jit
{{- end }}
{{- if .Values.models.volume }}
- name: models
  mountPath: {{ .Values.models.mountPath }}
  readOnly: {{ .Values.models.readOnly }}
{{- end }}
- name: tmp
  mountPath: /tmp
{{- $secrets := dict "tls" .Values.tls.secretName "client-ca" .Values.tls.clientCASecretName "principals" .Values.auth.principalsSecretName }}
{{- range $name, $secret := $secrets }}
{{- if $secret }}
- name: {{ $name }}
  mountPath: {{ include "accelerd.secrets" $ }}/{{ $name }}
  readOnly: true
{{- end }}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The volumes, without "data" if each pod has a claim of its own. */ -}}
{{- define "accelerd.volumes" -}}
- name: config
  configMap:
    name: {{ include "accelerd.fullname" . }}
{{- if and (include "accelerd.dataDir" .) (not .Values.persistence.enabled) }}
- name: data
  emptyDir: {}
{{- end }}
{{- if include "accelerd.usesImageKernels" . }}
- name: kernels
  {{- toYaml (default (dict "emptyDir" dict) .Values.kernelCache.volume) | nindent 2 }}
{{- end }}
{{- with .Values.models.volume }}
- name: models
  {{- toYaml . | nindent 2 }}
{{- end }}
- name: tmp
  emptyDir: {}
{{- with .Values.tls.secretName }}
{{ include "accelerd.secretVolume" (list "tls" .) }}
{{- end }}
{{- with .Values.tls.clientCASecretName }}
{{ include "accelerd.secretVolume" (list "client-ca" . "ca.crt") }}
{{- end }}
{{- with .Values.auth.principalsSecretName }}
{{ include "accelerd.secretVolume" (list "principals" .) }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
