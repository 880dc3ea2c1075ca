{{- /* The template of a pod. */ -}}
{{- define "accelerd.pod" -}}
metadata:
  # Without the chart's version: a change of templates alone replaces no pod.
  labels: {{- mergeOverwrite (omit (include "accelerd.labels" . | fromYaml) "helm.sh/chart") .Values.podLabels | toYaml | nindent 4 }}
  annotations:
    checksum/config: {{ include "accelerd.config" . | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "accelerd.serviceAccountName" . }}
  automountServiceAccountToken: false
  # Variables of services begin with their names, and those of ACCELERD_ are settings.
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ include "accelerd.gracePeriod" . }}
  {{- with .Values.gpu.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- toYaml .Values.podSecurityContext | nindent 4 }}
  {{- if or .Values.models.download.files .Values.extraInitContainers }}
  initContainers:
    {{- if .Values.models.download.files }}
    - {{ include "accelerd.download" . | indent 6 | trim }}
    {{- end }}
    {{- with .Values.extraInitContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- end }}
  containers:
    - {{ include "accelerd.container" . | indent 6 | trim }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes: {{- include "accelerd.volumes" . | nindent 4 }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- $selector := dict "matchLabels" (include "accelerd.selectorLabels" $ | fromYaml) }}
    {{- range . }}
    - {{ set (deepCopy .) "labelSelector" (default $selector .labelSelector) | toYaml | indent 6 | trim }}
    {{- end }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- /* The container of the daemon. */ -}}
{{- define "accelerd.container" -}}
name: accelerd
image: {{ include "accelerd.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [serve, --config, /etc/accelerd/config.toml]
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
{{- if or .Values.hub.tokenSecretName .Values.extraEnv }}
env:
  {{- include "accelerd.hubToken" . | nindent 2 }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- with .Values.envFrom }}
envFrom: {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - name: grpc
    containerPort: {{ include "accelerd.port" .Values.config.server.listen }}
  {{- with .Values.config.http.listen }}
  - name: http
    containerPort: {{ include "accelerd.port" . }}
  {{- end }}
  - name: metrics
    containerPort: {{ include "accelerd.port" .Values.config.server.admin_listen }}
  - name: health
    containerPort: {{ include "accelerd.port" .Values.config.server.health_listen }}
{{- if gt (int .Values.preStopSeconds) 0 }}
lifecycle:
  preStop:
    exec:
      command: [sleep, {{ .Values.preStopSeconds | quote }}]
{{- end }}
{{- $services := dict "startup" "readiness" "liveness" "liveness" "readiness" "readiness" }}
{{- range $probe, $service := $services }}
{{ $probe }}Probe:
  grpc:
    port: {{ include "accelerd.port" $.Values.config.server.health_listen }}
    service: {{ $service }}
  {{- toYaml (get $.Values.probes $probe) | nindent 2 }}
{{- end }}
resources:
  {{- $resources := deepCopy .Values.resources }}
  {{- if gt (int .Values.gpu.count) 0 }}
  {{- $gpu := dict "limits" (dict .Values.gpu.resourceName (int .Values.gpu.count)) }}
  {{- $resources = mergeOverwrite $resources $gpu }}
  {{- end }}
  {{- toYaml $resources | nindent 2 }}
volumeMounts: {{- include "accelerd.volumeMounts" . | nindent 2 }}
{{- end }}

{{- define "accelerd.hubToken" -}}
{{- with .Values.hub.tokenSecretName -}}
- name: HF_TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: {{ $.Values.hub.tokenSecretKey }}
{{- end }}
{{- end }}

{{- /* The init container that downloads models. Its arguments are lines of sha256, path and URL, so that no shell reads them. */ -}}
{{- define "accelerd.download" -}}
name: download-models
image: {{ .Values.models.download.image }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
command: [sh, -c]
args:
  - |-
    {{- .Files.Get "files/download.sh" | nindent 4 }}
  - download
  - {{ .Values.models.mountPath }}
  - {{ ternary (trimSuffix "/" (dig "models" "hub" "endpoint" "https://huggingface.co" .Values.config)) "" .Values.models.download.sendToken | quote }}
  {{- range .Values.models.download.files }}
  - {{ default "-" .sha256 | quote }}
  - {{ .path | quote }}
  - {{ .url | quote }}
  {{- end }}
{{- with include "accelerd.hubToken" . }}
env: {{- . | nindent 2 }}
{{- end }}
resources: {{- toYaml .Values.models.download.resources | nindent 2 }}
volumeMounts:
  - name: models
    mountPath: {{ .Values.models.mountPath }}
  - name: tmp
    mountPath: /tmp
{{- end }}
