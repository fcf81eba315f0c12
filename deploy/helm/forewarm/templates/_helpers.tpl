{{/* Name of all objects. */}}
{{- define "forewarm.name" -}}
{{- if contains "forewarm" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-forewarm" (.Release.Name | trunc 43 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "forewarm.selector" -}}
app.kubernetes.io/name: forewarm
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "forewarm.labels" -}}
{{ include "forewarm.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "forewarm.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Ports that the configuration has the daemon listen on, by name, as YAML. */}}
{{- define "forewarm.ports" -}}
{{- $c := .Values.config -}}
http: 9464
probes: 9463
{{- if not (dig "nats" "url" "" $c) }}
nats: 4222
{{- end }}
{{- with dig "keda" "listen" "" $c }}
keda: {{ regexFind "[0-9]+$" . }}
{{- end }}
{{- with dig "listeners" "http" "listen" "" $c }}
otlp: {{ regexFind "[0-9]+$" . }}
{{- end }}
{{- range $i, $planner := dig "dynamo" "planners" list $c }}
dynamo-{{ $i }}: {{ regexFind "[0-9]+$" $planner.listen }}
{{- end }}
{{- end }}
