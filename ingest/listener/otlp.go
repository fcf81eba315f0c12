package listener

import (
	"encoding/binary"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
)

var protobufTypes = []string{"application/x-protobuf", "application/protobuf"} // the first is that of the specification

// postExport takes in OTLP exports (opentelemetry.io/docs/specs/otlp) in protobuf, JSON or gRPC, and answers in kind.
// Spans and log records that cannot be used make a partial success, or 400 if nothing can be used. The exporter must
// send neither again. protobuf and json are content types, rejected is the member that counts what is refused.
func (l *Listener) postExport(protobuf, json, rejected string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		contentType := protobuf
		switch kind := mediaType(r); {
		case kind == "application/json":
			contentType = json
		case !slices.Contains(protobufTypes, kind) && !isGRPC(r):
			refuse(w, r, http.StatusUnsupportedMediaType, "want Content-Type application/x-protobuf or application/json")
			return
		}
		out, code, message := l.take(w, r, contentType)
		switch {
		case code != http.StatusOK:
			refuse(w, r, code, message)
		case out.unusable():
			refuse(w, r, l.codeOf(r, &out), out.complaint())
		case contentType == json:
			writeJSON(w, code, exportAnswer(&out, rejected))
		case isGRPC(r):
			writeGRPC(w, code, "", appendExportAnswer(nil, &out))
		default:
			w.Header().Set("Content-Type", mediaType(r))
			_, _ = w.Write(appendExportAnswer(nil, &out))
		}
	}
}

// refuse answers in the kind of the request: as gRPC, or with a google.rpc.Status, as OTLP/HTTP wants failures. Its
// code is always 0, because the HTTP status says as much.
func refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	switch {
	case isGRPC(r):
		writeGRPC(w, code, why, nil)
	case slices.Contains(protobufTypes, mediaType(r)):
		w.Header().Set("Content-Type", mediaType(r))
		w.WriteHeader(code)
		_, _ = w.Write(appendNumberAndText(nil, 0, why))
	default:
		writeJSON(w, code, map[string]any{"message": why})
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

// The trailers of a gRPC answer (github.com/grpc/grpc, doc/PROTOCOL-HTTP2.md).
const (
	grpcStatus  = "Grpc-Status"
	grpcMessage = "Grpc-Message"
)

// grpcCodes are the codes of gRPC that say what an HTTP status says. Exporters send again after Unavailable.
var grpcCodes = map[int]codes.Code{
	http.StatusOK:                    codes.OK,
	http.StatusBadRequest:            codes.InvalidArgument,
	http.StatusUnauthorized:          codes.Unauthenticated,
	http.StatusForbidden:             codes.PermissionDenied,
	http.StatusNotFound:              codes.Unimplemented,
	http.StatusRequestTimeout:        codes.DeadlineExceeded,
	http.StatusRequestEntityTooLarge: codes.ResourceExhausted,
	http.StatusUnsupportedMediaType:  codes.Unimplemented,
	http.StatusTooManyRequests:       codes.Unavailable,
	http.StatusServiceUnavailable:    codes.Unavailable,
}

func isGRPC(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}

// framing is the length of what stands before a message of gRPC: whether it is compressed, and its length.
const framing = 5

// unframed takes the only message out of the body of a gRPC call.
func unframed(body []byte, header http.Header) (message []byte, encoding string, ok bool) {
	if len(body) < framing || int(binary.BigEndian.Uint32(body[1:])) != len(body)-framing {
		return nil, "", false
	}
	if body[0] == 1 {
		encoding = header.Get("Grpc-Encoding")
	}
	return body[framing:], encoding, true
}

// writeGRPC answers a call with a message, or refuses it.
func writeGRPC(w http.ResponseWriter, code int, why string, message []byte) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", grpcStatus+", "+grpcMessage)
	w.WriteHeader(http.StatusOK)
	if code == http.StatusOK {
		_, _ = w.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...))
	}
	w.Header().Set(grpcStatus, strconv.Itoa(int(grpcCodes[code])))
	w.Header().Set(grpcMessage, url.PathEscape(why))
}
