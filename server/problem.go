package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// Problem is an error response (RFC 9457) below /api/v1. Detail says what is wrong and how to fix it.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (p *Problem) Error() string { return p.Detail }

// Problemf is a problem with an HTTP status.
func Problemf(status int, format string, args ...any) *Problem {
	return &Problem{"about:blank", http.StatusText(status), status, fmt.Sprintf(format, args...)}
}

// asProblem is err as a problem. Only requests to NATS have deadlines. Other errors without a status are internal.
func asProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Problemf(http.StatusServiceUnavailable, "NATS did not answer: %v; /readyz says how it is", err)
	}
	return Problemf(http.StatusInternalServerError, "%v", err)
}

// WriteProblem answers with err.
func WriteProblem(w http.ResponseWriter, err error) {
	p := asProblem(err)
	_ = writeJSON(w, "application/problem+json", p.Status, p) // it can be encoded
}

func writeJSON(w http.ResponseWriter, kind string, code int, v any) error {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("the answer cannot be encoded: %w", err)
	}
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
	return nil
}

// plainText is an answer that is not JSON.
type plainText string

// answer handles a request of the API: its results are JSON, or plain text.
type answer func(r *http.Request) (any, error)

// ServeHTTP implements [http.Handler].
func (get answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := get(r)
	if text, ok := v.(plainText); ok && err == nil {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(text))
		return
	}
	if err == nil {
		err = writeJSON(w, "application/json", http.StatusOK, v)
	}
	if err != nil {
		WriteProblem(w, err)
	}
}
