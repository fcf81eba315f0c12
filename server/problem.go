package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"
)

// Problem is an error response (RFC 9457) below /api/v1. Detail says what is wrong and how to fix it.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// Problemf is a problem with an HTTP status.
func Problemf(status int, format string, args ...any) *Problem {
	return &Problem{"about:blank", http.StatusText(status), status, fmt.Sprintf(format, args...)}
}

// asProblem is err as a problem; an error without a status is an internal one.
func asProblem(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	return Problemf(http.StatusInternalServerError, "%v", err)
}

// WriteProblem answers with err.
func WriteProblem(w http.ResponseWriter, err error) {
	p := asProblem(err)
	writeJSON(w, "application/problem+json", p.Status, p)
}

// writeJSON answers with a value of texts, numbers and booleans, which encode without an error.
func writeJSON(w http.ResponseWriter, kind string, code int, v any) {
	body, _ := json.MarshalIndent(v, "", "  ")
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}

// answer handles a request of the API.
type answer func(r *http.Request) (any, error)

// plainText is an answer that is not JSON.
type plainText string

// api serves answers as JSON.
func (s *Server) api(get answer) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := get(r)
		if err != nil {
			WriteProblem(w, err)
			return
		}
		text, plain := v.(plainText)
		body, kind := []byte(text), "text/plain; charset=utf-8"
		if !plain {
			body, err = json.MarshalIndent(v, "", "  ")
			body, kind = append(body, '\n'), "application/json"
		}
		if err != nil {
			s.log.Error("encode an answer", zap.Error(err))
			WriteProblem(w, Problemf(http.StatusInternalServerError, "the answer cannot be encoded: the daemon's log has more"))
			return
		}
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(body)
	}
}
