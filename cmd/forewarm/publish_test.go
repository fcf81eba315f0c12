package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestPublish: the daemon counts the records that publish sends, one and many.
func TestPublish(t *testing.T) {
	p := startDaemon(t, validPool)
	code, out, errs := runHere(t.Context(), "publish", "-nats", p.nats, "-class", "agent", "-cached", "200")
	if code != 0 || !strings.Contains(out, "stored 1 record on forewarm.telemetry.request.chat.agent") {
		t.Fatalf("%d, %s%s", code, out, errs)
	}
	if code, out, errs = runHere(t.Context(), "publish", "-nats", p.nats, "-n", "20"); code != 0 {
		t.Fatalf("%d, %s%s", code, out, errs)
	}
	testenv.Await(t, "the records to be counted", func() bool { return testenv.Metric(t, p.base, "forewarm_ingest_records_total") == 21 })
	p.settle(t)
	_, page := testenv.Get(p.base + "/metrics")
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "forewarm_ingest_refused_total") && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("refused: %s", line)
		}
	}
}

// TestPublishFails: an error names the subject and says what to do.
func TestPublishFails(t *testing.T) {
	allowed := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"elsewhere.>"}}, Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}}}
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoAuthUser: "all", NoSigs: true,
		Users: []*server.User{{Username: "all", Password: "a"}, {Username: "few", Password: "b", Permissions: allowed}},
	})
	if err != nil {
		t.Fatal(err)
	}
	go s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(testenv.Patience) {
		t.Fatal("the NATS server does not start")
	}
	for _, tc := range []struct {
		url  string
		says []string
	}{
		{s.ClientURL(), []string{"forewarm.telemetry.request.chat.default", "no stream holds", "forewarm serve", "-config", "0 of 1"}},
		{strings.Replace(s.ClientURL(), "//", "//few:b@", 1), []string{"forewarm.telemetry.request.chat.default", "permissions", "permissions.conf", "-config"}},
	} {
		code, _, errs := runHere(t.Context(), "publish", "-nats", tc.url)
		if code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		for _, part := range tc.says {
			if !strings.Contains(errs, part) {
				t.Errorf("%q does not say %q", errs, part)
			}
		}
	}
}
