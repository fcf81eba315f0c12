package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/alerting"
)

func TestDesired(t *testing.T) {
	r := fullReader()
	r.status.Clock = "event"
	r.pools[1].Decision.Mode = alerting.Active
	h := newServer(DefaultConfig(), r, NewExporter("v1", 0)).Handler()
	for query, want := range map[string]struct {
		code int
		body string
	}{
		"/api/v1/pools/chat/desired":            {http.StatusOK, `"desired_replicas": 8`},
		"/api/v1/pools/batch/desired":           {http.StatusServiceUnavailable, "its telemetry is stale"},
		"/api/v1/pools/chat/desired?role=cache": {http.StatusBadRequest, "the roles are all"},
		"/api/v1/pools/none/desired":            {http.StatusNotFound, "/api/v1/pools lists batch, chat"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+query, nil))
		body := strings.ReplaceAll(w.Body.String(), `\"`, `"`)
		if w.Code != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %s, want %d with %q", query, w.Code, body, want.code, want.body)
		}
		if w.Code != http.StatusOK && strings.Contains(body, "desired_replicas") {
			t.Errorf("%s: an error with a number of replicas: %s", query, body)
		}
	}
}
