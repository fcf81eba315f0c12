package sink

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
)

// faults are what an HTTP consumer can do wrong, and whether trying again makes sense.
var faults = []struct {
	name      string
	serve     func(w http.ResponseWriter, r *http.Request) // nil: nobody listens
	permanent bool
}{
	{name: "refused"},
	{name: "500", serve: status(500)},
	{name: "503", serve: status(503)},
	{name: "429", serve: status(429)},
	{name: "408", serve: status(408)},
	{name: "400", serve: status(400), permanent: true},
	{name: "401", serve: status(401), permanent: true},
	{name: "410", serve: status(410), permanent: true},
	{name: "slow", serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	{name: "reset", serve: func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		c.Close()
	}},
	{name: "reset mid-body", serve: func(w http.ResponseWriter, _ *http.Request) {
		c, b, _ := http.NewResponseController(w).Hijack()
		b.WriteString("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 900\r\n\r\nhalf")
		b.Flush()
		c.Close()
	}},
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

// httpSinks are the sinks that speak HTTP, each built for a consumer at url.
var httpSinks = map[string]func(url string) (alerting.Sink, error){
	"alertmanager": func(url string) (alerting.Sink, error) {
		return NewAlertmanager(AlertmanagerConfig{URLs: []string{url}})
	},
}

func TestFaults(t *testing.T) {
	for sinkName, build := range httpSinks {
		for _, fault := range faults {
			t.Run(sinkName+"/"+fault.name, func(t *testing.T) {
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					r.Body = io.NopCloser(bytes.NewReader(body))
					fault.serve(w, r)
				}))
				defer server.Close()
				if fault.serve == nil {
					server.Close()
				}
				s, err := build(server.URL)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
				err = s.Send(ctx, alert("llama", false))
				if err == nil {
					t.Fatal("no error")
				}
				if _, permanent := errors.AsType[alerting.Permanent](err); permanent != fault.permanent {
					t.Errorf("permanent %t, want %t: %v", permanent, fault.permanent, err)
				}
			})
		}
	}
}
