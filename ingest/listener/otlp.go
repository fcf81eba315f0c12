package listener

import (
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/forewarm/forewarm/ingest/codec"
)

// postTraces and postLogs take in an OTLP/HTTP export (opentelemetry.io/docs/specs/otlp, section OTLP/HTTP): protobuf or JSON,
// answered in kind. Spans and log records that cannot be used make a partial success, which the exporter must not send again; so
// 400 is only for what is no export at all.
func (s *httpServer) postTraces(w http.ResponseWriter, r *http.Request) {
	s.postExport(w, r, codec.ContentTypeOTLP, codec.ContentTypeOTLPJSON, "rejectedSpans")
}

func (s *httpServer) postLogs(w http.ResponseWriter, r *http.Request) {
	s.postExport(w, r, codec.ContentTypeOTLPLogs, codec.ContentTypeOTLPLogsJSON, "rejectedLogRecords")
}

func (s *httpServer) postExport(w http.ResponseWriter, r *http.Request, protobuf, json, rejected string) {
	var contentType string
	asJSON := false
	switch mediaType(r.Header.Get("Content-Type")) {
	case "application/x-protobuf", "application/protobuf":
		contentType = protobuf
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

// exportAnswer is an ExportTraceServiceResponse or ExportLogsServiceResponse in JSON, where 64-bit integers are strings.
func exportAnswer(o *outcome, rejected string) map[string]any {
	if o.refused == 0 {
		return map[string]any{}
	}
	return map[string]any{"partialSuccess": map[string]any{
		rejected: strconv.Itoa(o.refused), "errorMessage": o.complaint(),
	}}
}

// appendExportAnswer appends an ExportTraceServiceResponse in protobuf (opentelemetry/proto/collector/trace/v1/trace_service.proto).
// An ExportLogsServiceResponse has the same numbers.
func appendExportAnswer(dst []byte, o *outcome) []byte {
	if o.refused == 0 {
		return dst
	}
	const partialSuccess, rejected, errorMessage = 1, 1, 2
	var partial []byte
	partial = protowire.AppendTag(partial, rejected, protowire.VarintType)
	partial = protowire.AppendVarint(partial, uint64(o.refused))
	partial = protowire.AppendTag(partial, errorMessage, protowire.BytesType)
	partial = protowire.AppendString(partial, o.complaint())
	dst = protowire.AppendTag(dst, partialSuccess, protowire.BytesType)
	return protowire.AppendBytes(dst, partial)
}

// writeStatus answers with a google.rpc.Status, as OTLP/HTTP wants failures.
func writeStatus(w http.ResponseWriter, asJSON bool, code int, message string) {
	rpc := rpcCode(code)
	if asJSON {
		writeJSON(w, code, map[string]any{"code": rpc, "message": message})
		return
	}
	const statusCode, statusMessage = 1, 2
	var body []byte
	body = protowire.AppendTag(body, statusCode, protowire.VarintType)
	body = protowire.AppendVarint(body, uint64(rpc))
	body = protowire.AppendTag(body, statusMessage, protowire.BytesType)
	body = protowire.AppendString(body, message)
	w.Header().Set("Content-Type", "application/x-protobuf")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

// rpcCode is the gRPC code that means what an HTTP status does.
func rpcCode(code int) codes.Code {
	switch code {
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return codes.Unavailable
	case http.StatusRequestTimeout:
		return codes.DeadlineExceeded
	case http.StatusRequestEntityTooLarge:
		return codes.ResourceExhausted
	}
	return codes.InvalidArgument
}
