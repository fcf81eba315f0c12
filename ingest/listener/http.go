package listener

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/felixge/httpsnoop"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/httpguard"
)

// httpCodes are the status codes that are counted by themselves.
var httpCodes = []string{"200", "400", "401", "403", "404", "405", "408", "413", "415", "429", "503"}

// retryAfter is how long a client that came too often, or at a bad moment, is asked to wait, in seconds.
const retryAfter = "5"

// httpServer answers POST /v1/traces and /v1/logs as OTLP/HTTP has it, and POST /v1/telemetry/{format}?pool=&class= for
// every format of package ingest. Bodies may be compressed by gzip. A producer may name itself in the header
// Forewarm-Source.
type httpServer struct{ *handler }

func newHTTP(h *handler) server { return &httpServer{h} }

func (s *httpServer) serve(ctx context.Context, l net.Listener) error {
	return httpguard.Serve(ctx, &http.Server{
		Handler: s.mux(), TLSConfig: s.secure, MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: headerTimeout,
		ReadTimeout: s.timeouts.body, WriteTimeout: s.timeouts.body + s.timeouts.store + grace, IdleTimeout: idleTimeout, ErrorLog: zap.NewStdLog(s.Log),
	}, l, grace)
}

func (s *httpServer) mux() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/traces", s.postExport(codec.ContentTypeOTLP, codec.ContentTypeOTLPJSON, "rejectedSpans"))
	mux.HandleFunc("POST /v1/logs", s.postExport(codec.ContentTypeOTLPLogs, codec.ContentTypeOTLPLogsJSON, "rejectedLogRecords"))
	mux.HandleFunc("POST /v1/telemetry/{format}", s.postTelemetry)
	return s.counted(httpguard.Guard(s.listen, s.hosts, s.authorized(mux), func(w http.ResponseWriter, r *http.Request, why string) {
		refuse(w, r, http.StatusForbidden, why)
	}))
}

// refuse answers in the kind of the request.
func refuse(w http.ResponseWriter, r *http.Request, code int, why string) {
	writeStatus(w, mediaType(r.Header.Get("Content-Type")) != "application/x-protobuf", code, why)
}

// authorized lets only clients through that hold the token, if there is one.
func (s *httpServer) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.admits(r.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, r, http.StatusUnauthorized, "the token is missing or wrong; send it as Authorization: Bearer")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// counted lets next answer, and counts the status codes of its answers.
func (s *httpServer) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.answered(strconv.Itoa(httpsnoop.CaptureMetrics(next, w, r).Code))
	})
}

// postTelemetry takes in one message of the format that the path names.
func (s *httpServer) postTelemetry(w http.ResponseWriter, r *http.Request) {
	fail := func(code int, message string) {
		writeJSON(w, code, map[string]any{"error": message})
	}
	name := r.PathValue("format")
	contentType, ok := codec.ContentTypeOf(name)
	if !ok {
		fail(http.StatusNotFound, fmt.Sprintf("format %.64q is not known, want one of %s", name, strings.Join(codec.Formats(), ", ")))
		return
	}
	out, code, message := s.take(w, r, contentType)
	if code != 0 {
		fail(code, message)
		return
	}
	answer := map[string]any{"accepted": out.accepted, "ignored": out.ignored, "refused": out.refused}
	code = http.StatusOK
	if out.refused > 0 {
		answer["reason"], answer["detail"] = out.first.Reason, out.first.Detail
		if out.unserved > 0 {
			answer["unknown_pools"] = out.unknown
		}
		if out.accepted+out.ignored == 0 {
			code = codeOf(&out)
		}
	}
	writeJSON(w, code, answer)
}

// codeOf is the status code for a request of which nothing could be used.
func codeOf(o *outcome) int {
	switch {
	case o.unreadable() && o.first.Reason == ingest.ReasonTooLarge:
		return http.StatusRequestEntityTooLarge
	case o.unreadable() && o.first.Reason == ingest.ReasonUnknownFormat:
		return http.StatusUnsupportedMediaType
	}
	return http.StatusBadRequest
}

// take reads the body of a request and stores its records. A code other than 0 refuses the request; message is the
// reason.
func (s *httpServer) take(w http.ResponseWriter, r *http.Request, contentType string) (out outcome, code int, message string) {
	later := func(code int, why string) (outcome, int, string) {
		w.Header().Set("Retry-After", retryAfter)
		return out, code, why
	}
	const busy = "too many requests at once"
	if !s.rate.Allow() {
		return later(http.StatusTooManyRequests, "too many requests a second; send larger batches")
	}
	size := r.ContentLength
	if size < 0 || size > int64(s.maxBytes) { // unknown, or too long and read up to the bound
		size = int64(s.maxBytes)
	}
	if !s.memory.TryAcquire(size) {
		return later(http.StatusServiceUnavailable, busy)
	}
	defer s.memory.Release(size)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.maxBytes)))
	s.Bytes.Add(uint64(len(body)))
	if err != nil {
		code, message = s.bodyFault(err)
		return out, code, message
	}
	if !s.slots.TryAcquire(1) {
		return later(http.StatusServiceUnavailable, busy)
	}
	defer s.slots.Release(1)
	query := r.URL.Query()
	out, err = s.accept(r.Context(), codec.Meta{
		ContentType: contentType, Encoding: r.Header.Get("Content-Encoding"),
		Pool: query.Get("pool"), Class: query.Get("class"), Source: r.Header.Get(codec.HeaderSource),
	}, body)
	if err != nil {
		s.complain(err)
		return later(http.StatusServiceUnavailable, "the telemetry stream does not answer")
	}
	s.stored(&out)
	return out, 0, ""
}

// bodyFault is the answer to a body that could not be read.
func (s *httpServer) bodyFault(err error) (code int, message string) {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes; send smaller batches", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, fmt.Sprintf("the body took more than %s", s.timeouts.body)
	}
	return http.StatusBadRequest, "the body ends early"
}

// mediaType is the type that a Content-Type header names, without parameters.
func mediaType(header string) string {
	t, _, _ := mime.ParseMediaType(header)
	return t
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}
