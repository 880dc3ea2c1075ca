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

{{- /* Name of the Deployment or StatefulSet. Kubernetes appends a hash and more to names of pods and labels. */ -}}
{{- define "accelerd.workload" -}}
{{- include "accelerd.fullname" . | trunc 46 | trimSuffix "-" }}
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
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Metadata of an object: (list . NAME), and optionally a dict with namespace, labels and annotations. */ -}}
{{- define "accelerd.metadata" -}}
{{- $root := index . 0 }}
{{- $more := dict }}
{{- if gt (len .) 2 }}{{ $more = index . 2 }}{{ end -}}
name: {{ index . 1 }}
namespace: {{ default $root.Release.Namespace $more.namespace }}
labels: {{- mergeOverwrite (include "accelerd.labels" $root | fromYaml) (default dict $more.labels) | toYaml | nindent 2 }}
{{- with $more.annotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "accelerd.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "accelerd.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "accelerd.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- $suffix := ternary "-cpu" "" (eq (int .Values.gpu.count) 0) }}
{{- printf "%s:%s" .Values.image.repository (default (printf "%s%s" .Chart.AppVersion $suffix) .Values.image.tag) }}
{{- end }}
{{- end }}

{{- /* Port of a "host:port" address. */ -}}
{{- define "accelerd.port" -}}
{{- regexFind "[0-9]+$" . }}
{{- end }}

{{- /* Whether only the pod itself reaches an address. */ -}}
{{- define "accelerd.isLoopback" -}}
{{- if regexMatch "^(127\\.|\\[::1\\])" . }}true{{ end }}
{{- end }}

{{- /* Whether the gRPC and HTTP ports have TLS. */ -}}
{{- define "accelerd.hasTls" -}}
{{- if or .Values.tls.secretName (dig "tls" "certificate" "" .Values.config) }}true{{ end }}
{{- end }}

{{- /* Whether the daemon may serve without principals, or tokens in plaintext. */ -}}
{{- define "accelerd.isInsecure" -}}
{{- if or .Values.auth.insecure (dig "auth" "insecure" false .Values.config) }}true{{ end }}
{{- end }}

{{- /* The ports of a service for gRPC and HTTP: (list . GRPC_PORT HTTP_PORT). */ -}}
{{- define "accelerd.servicePorts" -}}
{{- $root := index . 0 }}
{{- $has_tls := eq (include "accelerd.hasTls" $root) "true" -}}
- name: grpc
  port: {{ index . 1 }}
  targetPort: grpc
  appProtocol: {{ ternary "https" "kubernetes.io/h2c" $has_tls }}
{{- if $root.Values.config.http.listen }}
- name: http
  port: {{ index . 2 }}
  targetPort: http
  appProtocol: {{ ternary "https" "http" $has_tls }}
{{- end }}
{{- end }}

{{- /* The label of the pod of the test, which the services do not select. */ -}}
{{- define "accelerd.testName" -}}
{{- printf "%s-test" (include "accelerd.name" . | trunc 58 | trimSuffix "-") }}
{{- end }}

{{- /* What the containers of the test have in common. */ -}}
{{- define "accelerd.testContainer" -}}
image: {{ include "accelerd.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- toYaml .Values.securityContext | nindent 2 }}
resources:
  requests:
    cpu: 50m
    memory: 64Mi
  limits:
    memory: 256Mi
{{- end }}
