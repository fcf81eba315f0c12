package server

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/alerting"
)

// fullServer has a history, and explains one decision.
func fullServer() *Server {
	s := newTestServer(fullReader())
	s.History = chatHistory{}
	s.Explain = func(_ context.Context, ref string) (alerting.Explanation, error) {
		if ref != "chat-3" {
			return alerting.Explanation{}, Problemf(http.StatusNotFound, "no decision %q", ref)
		}
		return alerting.Explain(fullOutput().Pools[1].Decision, nil), nil
	}
	return s
}

// TestPages: each page is complete, and has its content.
func TestPages(t *testing.T) {
	s := fullServer()
	for path, want := range map[string]string{
		"/":                         "8 replicas hold it.",
		"/pools/chat":               `<data value="0.19999999999999996">20 %</data>`,
		"/pools/batch":              "Telemetry of this pool is stale",
		"/pools/chat/classes/*":     "Length of prompts",
		"/pools/chat/classes/":      "Traffic without a class of pool",
		"/pools/chat/classes/a%2Fb": "Class a/b of pool",
		"/what-if?pool=chat":        "no traffic to plan from",
		"/explain/chat-3":           `<pre tabindex="0">`,
		"/static/forewarm.js":       `"use strict"`,
		"/static/forewarm.css":      "prefers-color-scheme",
		"/pools/chat?at=1":          "No forecast is kept of that moment",
		"/pools/chat?resource=x":    "it must be one of",
		"/pools/none":               "no pool &#34;none&#34; at the last tick",
		"/explain/none-1":           "no decision",
	} {
		w := get(t, s, path)
		body := w.Body.String()
		if !strings.Contains(body, want) || strings.HasPrefix(body, "<!doctype") && !strings.Contains(body, "</html>") {
			t.Errorf("%s: %d, no %q in:\n%s", path, w.Code, want, body)
		}
		if strings.Contains(body, "NaN") || strings.Contains(body, "style=") {
			t.Errorf("%s: NaN, or a style attribute, which the Content-Security-Policy forbids:\n%s", path, body)
		}
	}
}
