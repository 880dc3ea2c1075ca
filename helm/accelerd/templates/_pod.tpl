{{- /* The template of a pod, without the volume "data" if each pod has a claim of its own. */ -}}
{{- define "accelerd.pod" -}}
metadata:
  labels:
    {{- include "accelerd.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
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
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  {{- with .Values.gpu.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- toYaml .Values.podSecurityContext | nindent 4 }}
  containers:
    - name: accelerd
      image: {{ include "accelerd.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: [serve, --config, /etc/accelerd/config.toml]
      securityContext: {{- toYaml .Values.securityContext | nindent 8 }}
      {{- with .Values.env }}
      env: {{- toYaml . | nindent 8 }}
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
      {{- $health := include "accelerd.port" .Values.config.server.health_listen }}
      startupProbe:
        grpc:
          port: {{ $health }}
          service: readiness
        {{- toYaml .Values.probes.startup | nindent 8 }}
      livenessProbe:
        grpc:
          port: {{ $health }}
          service: liveness
        {{- toYaml .Values.probes.liveness | nindent 8 }}
      readinessProbe:
        grpc:
          port: {{ $health }}
          service: readiness
        {{- toYaml .Values.probes.readiness | nindent 8 }}
      resources:
        {{- $resources := deepCopy .Values.resources }}
        {{- if gt (int .Values.gpu.count) 0 }}
        {{- $gpu := dict "limits" (dict .Values.gpu.resourceName (int .Values.gpu.count)) }}
        {{- $resources = mergeOverwrite $resources $gpu }}
        {{- end }}
        {{- toYaml $resources | nindent 8 }}
      volumeMounts:
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
        - name: tmp
          mountPath: /tmp
        {{- if .Values.tls.secretName }}
        - name: tls
          mountPath: {{ include "accelerd.secrets" . }}/tls
          readOnly: true
        {{- end }}
        {{- if .Values.tls.clientCASecretName }}
        - name: client-ca
          mountPath: {{ include "accelerd.secrets" . }}/client-ca
          readOnly: true
        {{- end }}
        {{- if .Values.auth.principalsSecretName }}
        - name: principals
          mountPath: {{ include "accelerd.secrets" . }}/principals
          readOnly: true
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "accelerd.fullname" . }}
    {{- if and (include "accelerd.dataDir" .) (not .Values.persistence.enabled) }}
    - name: data
      emptyDir: {}
    {{- end }}
    {{- if include "accelerd.usesImageKernels" . }}
    - name: kernels
      emptyDir: {}
    {{- end }}
    - name: tmp
      emptyDir: {}
    {{- with .Values.tls.secretName }}
    - name: tls
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.tls.clientCASecretName }}
    - name: client-ca
      secret:
        secretName: {{ . }}
        defaultMode: 0440
        # Without the authority's private key, if the secret has it.
        items:
          - key: ca.crt
            path: ca.crt
    {{- end }}
    {{- with .Values.auth.principalsSecretName }}
    - name: principals
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
