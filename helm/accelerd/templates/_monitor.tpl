{{- /* What a ServiceMonitor and a PodMonitor say of the endpoint. */ -}}
{{- define "accelerd.scrape" -}}
port: metrics
path: /metrics
{{- with .interval }}
interval: {{ . }}
{{- end }}
{{- with .scrapeTimeout }}
scrapeTimeout: {{ . }}
{{- end }}
{{- with .relabelings }}
relabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .metricRelabelings }}
metricRelabelings: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "accelerd.scraped" -}}
jobLabel: app.kubernetes.io/name
namespaceSelector:
  matchNames: [{{ .Release.Namespace }}]
selector:
  matchLabels: {{- include "accelerd.selectorLabels" . | nindent 4 }}
{{- end }}
