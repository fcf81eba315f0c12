package listener

import (
	"net/http"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// postExport takes in OTLP/HTTP exports (opentelemetry.io/docs/specs/otlp, section OTLP/HTTP): protobuf or JSON,
// answered in kind. Spans and log records that cannot be used make a partial success, which the exporter must not send
// again; so 400 is only for what is no export at all. protobuf and json are content types, rejected is the member that
// counts what is refused.
func (s *httpServer) postExport(protobuf, json, rejected string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		contentType, asJSON := protobuf, false
		switch mediaType(r.Header.Get("Content-Type")) {
		case "application/x-protobuf", "application/protobuf":
		case "application/json":
			contentType, asJSON = json, true
		default:
			writeStatus(w, true, http.StatusUnsupportedMediaType, "want Content-Type application/x-protobuf or application/json")
			return
		}
		out, code, message := s.take(w, r, contentType)
		switch {
		case code != 0:
			writeStatus(w, asJSON, code, message)
		case out.unreadable():
			writeStatus(w, asJSON, codeOf(&out), out.complaint())
		case asJSON:
			writeJSON(w, http.StatusOK, exportAnswer(&out, rejected))
		default:
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(appendExportAnswer(nil, &out))
		}
	}
}

// exportAnswer is an ExportTraceServiceResponse or ExportLogsServiceResponse in JSON, where 64-bit integers are
// strings.
func exportAnswer(o *outcome, rejected string) map[string]any {
	if o.refused == 0 {
		return map[string]any{}
	}
	return map[string]any{"partialSuccess": map[string]any{
		rejected: strconv.Itoa(o.refused), "errorMessage": o.complaint(),
	}}
}

// appendExportAnswer appends an ExportTraceServiceResponse in protobuf
// (opentelemetry/proto/collector/trace/v1/trace_service.proto). An ExportLogsServiceResponse has the same numbers.
func appendExportAnswer(dst []byte, o *outcome) []byte {
	if o.refused == 0 {
		return dst
	}
	const partialSuccess = 1
	dst = protowire.AppendTag(dst, partialSuccess, protowire.BytesType)
	return protowire.AppendBytes(dst, appendNumberAndText(nil, uint64(o.refused), o.complaint()))
}

// appendNumberAndText appends a message with a number in field 1 and a text in field 2.
func appendNumberAndText(dst []byte, number uint64, text string) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.VarintType)
	dst = protowire.AppendVarint(dst, number)
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	return protowire.AppendString(dst, text)
}

// writeStatus answers with a google.rpc.Status, as OTLP/HTTP wants failures. Its code is left out, because the HTTP
// status says as much.
func writeStatus(w http.ResponseWriter, asJSON bool, code int, message string) {
	if asJSON {
		writeJSON(w, code, map[string]any{"message": message})
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(code)
	_, _ = w.Write(appendNumberAndText(nil, 0, message))
}
