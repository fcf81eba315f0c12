package listener

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/felixge/httpsnoop"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/internal/httpguard"
)

// retryAfter is how long a client that came too often, or at a bad moment, is asked to wait, in seconds.
const retryAfter = "5"

// Run serves until ctx ends and requests under way are through, at most for a few seconds. It closes the socket.
//
// It answers OTLP over HTTP and gRPC, and POST /v1/telemetry/{format}?pool=&class= for every format of package
// codec. Bodies may be compressed by gzip. A producer may name itself in the header Forewarm-Source.
//
// A gRPC call is a POST by HTTP/2. So all bounds and checks are the same for both.
func (l *Listener) Run(ctx context.Context) error {
	if l.socket == nil {
		return nil
	}
	mux := http.NewServeMux()
	traces := l.postExport(codec.ContentTypeOTLP, codec.ContentTypeOTLPJSON, "rejectedSpans")
	mux.HandleFunc("POST /v1/traces", traces)
	mux.HandleFunc("POST /opentelemetry.proto.collector.trace.v1.TraceService/Export", traces)
	logs := l.postExport(codec.ContentTypeOTLPLogs, codec.ContentTypeOTLPLogsJSON, "rejectedLogRecords")
	mux.HandleFunc("POST /v1/logs", logs)
	mux.HandleFunc("POST /opentelemetry.proto.collector.logs.v1.LogsService/Export", logs)
	mux.HandleFunc("POST /v1/telemetry/{format}", l.postTelemetry)
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, http.StatusNotFound, "this path takes nothing; want /v1/traces, /v1/logs or /v1/telemetry/{format}")
	})
	forbid := func(w http.ResponseWriter, r *http.Request, why string) { refuse(w, r, http.StatusForbidden, why) }
	guarded := httpguard.Guard(l.cfg.HTTP.Listen, l.cfg.Hosts, l.authorized(mux), forbid)
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return httpguard.Serve(ctx, &http.Server{
		Handler:   l.counted(guarded),
		TLSConfig: l.secure,
		Protocols: &protocols,
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: l.cfg.HTTP.Concurrent},
		ErrorLog:  zap.NewStdLog(l.deps.Log),

		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       l.timeouts.body,
		WriteTimeout:      l.timeouts.body + l.timeouts.store + grace,
		IdleTimeout:       idleTimeout,
	}, l.socket, grace)
}

// authorized lets only clients through that hold the token, if there is one. It takes as long for every wrong one.
func (l *Listener) authorized(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(l.token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		have := sha256.Sum256([]byte(strings.TrimSpace(token)))
		if l.token != "" && (!strings.EqualFold(scheme, "Bearer") || subtle.ConstantTimeCompare(have[:], want[:]) != 1) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			refuse(w, r, http.StatusUnauthorized, "the token is missing or wrong; send it as Authorization: Bearer")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// counted lets next answer, and counts the status codes of its answers.
func (l *Listener) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code := strconv.Itoa(httpsnoop.CaptureMetrics(next, w, r).Code)
		if status, err := strconv.Atoi(w.Header().Get(grpcStatus)); err == nil {
			code = codes.Code(status).String()
		}
		requests := l.Requests[code]
		if requests == nil {
			requests = l.Requests["other"]
		}
		requests.Add(1)
	})
}

// postTelemetry takes in one message of the format that the path names.
func (l *Listener) postTelemetry(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("format")
	contentType, ok := codec.ContentTypeOf(name)
	if !ok {
		refuse(w, r, http.StatusNotFound, fmt.Sprintf("format %.64q is not known, want one of %s", name, strings.Join(codec.Formats(), ", ")))
		return
	}
	out, code, message := l.take(w, r, contentType)
	if code != http.StatusOK {
		refuse(w, r, code, message)
		return
	}
	answer := map[string]any{"accepted": out.accepted, "ignored": out.ignored, "refused": out.refused}
	if out.refused > 0 {
		answer["reason"], answer["detail"] = out.first.Reason, out.first.Detail
		if out.unusable() {
			code = l.codeOf(r, &out)
		}
	}
	writeJSON(w, code, answer)
}

// codeOf is the status code for a request of which nothing could be used. It counts the request.
func (l *Listener) codeOf(r *http.Request, o *outcome) int {
	code := http.StatusBadRequest
	switch o.first.Reason {
	case ingest.ReasonTooLarge:
		code = http.StatusRequestEntityTooLarge
	case ingest.ReasonUnknownFormat:
		code = http.StatusUnsupportedMediaType
	}
	name := strconv.Itoa(code)
	if isGRPC(r) {
		name = grpcCodes[code].String()
	}
	l.Unusable[name].Add(1)
	return code
}

// take reads the body of a request and stores its records. A code other than 200 refuses the request; message is the
// reason.
func (l *Listener) take(w http.ResponseWriter, r *http.Request, contentType string) (out outcome, code int, message string) {
	const busy = "too many requests at once"
	later := func(code int, why string) (outcome, int, string) {
		w.Header().Set("Retry-After", retryAfter)
		return out, code, why
	}
	if !l.rate.Allow() {
		return later(http.StatusTooManyRequests, "too many requests a second; send larger batches")
	}
	size := r.ContentLength
	if size < 0 || size > int64(l.cfg.HTTP.MaxBytes) { // unknown, or too long and read up to the bound
		size = int64(l.cfg.HTTP.MaxBytes)
	}
	if !l.memory.TryAcquire(size) {
		return later(http.StatusServiceUnavailable, busy)
	}
	defer l.memory.Release(size)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(l.cfg.HTTP.MaxBytes)))
	if err != nil {
		code, message = l.bodyFault(err)
		return out, code, message
	}
	encoding, ok := r.Header.Get("Content-Encoding"), true
	if isGRPC(r) {
		if body, encoding, ok = unframed(body, r.Header); !ok {
			return out, http.StatusBadRequest, "the body is not one message of gRPC"
		}
	}
	if !l.slots.TryAcquire(1) {
		return later(http.StatusServiceUnavailable, busy)
	}
	defer l.slots.Release(1)
	query := r.URL.Query()
	out, err = l.accept(r.Context(), codec.Meta{
		ContentType: contentType, Encoding: encoding,
		Pool: query.Get("pool"), Class: query.Get("class"), Source: r.Header.Get(codec.HeaderSource),
	}, body)
	if err != nil {
		l.outage.Do(func() { // every request of an outage finds out
			l.deps.Log.Warn("telemetry is not stored; its producers are asked to try again", zap.Error(err))
		})
		return later(http.StatusServiceUnavailable, "the telemetry stream does not answer")
	}
	l.deps.Ignored(out.ignored)
	return out, http.StatusOK, ""
}

// bodyFault is the answer to a body that could not be read.
func (l *Listener) bodyFault(err error) (code int, message string) {
	large, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes; send smaller batches", large.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, fmt.Sprintf("the body took more than %s", l.timeouts.body)
	}
	return http.StatusBadRequest, "the body ends early"
}

// mediaType is the type that the Content-Type header names, without parameters.
func mediaType(r *http.Request) string {
	t, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return t
}

func writeJSON(w http.ResponseWriter, code int, members map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(members) // only the connection can fail
}
