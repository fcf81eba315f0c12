package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestRefusedIsSeen: refused records are on the page, in /readyz and in the log at once, with their producer, the
// reason and the remedy.
func TestRefusedIsSeen(t *testing.T) {
	at := badInputStart.Add(time.Hour)
	record := func(i int, at time.Time) string {
		return fmt.Sprintf(`{"id":"s%d","arrived_at":%d,"prompt_tokens":100,"output_tokens":20}`, i, at.UnixMilli())
	}
	for name, tt := range map[string]struct {
		subject, source, data string
		repeat                int
		want                  []string
	}{
		"clock behind": {source: "gw-1", data: record(-1, badInputStart), want: []string{
			`1 record(s) of producer "gw-1" for pool "chat" refused as late: event time`, "before the newest minute", "set the producer's clock right"}},
		"no producer":  {data: record(-1, badInputStart), want: []string{`1 record(s) of producer "(no name)" for pool "chat" refused as late`}},
		"unknown pool": {subject: "forewarm.telemetry.request.nobody.talk", data: record(-1, at), want: []string{"add it under pools"}},
		"not JSON":     {source: "gw-2", data: "<xml/>", want: []string{`of producer "gw-2" for pool "chat" refused as not_json`}},
		"same id":      {data: record(0, at), repeat: 30, want: []string{"30 record(s)", "as duplicate", "the record was sent twice, or the producer reuses ids"}},
		"valid":        {data: record(-1, at)},
		"few repeated": {data: record(0, at) + "\n" + record(-1, at) + "\n" + record(-2, at)},
	} {
		t.Run(name, func(t *testing.T) {
			d := must(newDaemon(t, t.TempDir(), "clock: event", "pools:", badInputPool, "nats: {embedded: {listen: '127.0.0.1:0'}}"))
			core, logged := observer.New(zap.WarnLevel)
			d.log = zap.New(core)
			p := runDaemon(t, d)
			for i := range 3 {
				p.publish(t, "forewarm.telemetry.request.chat.talk", []byte(record(i, at.Add(time.Duration(i)*time.Minute))))
			}
			p.settle(t)
			headers := []string{"Forewarm-Source", tt.source}
			if strings.Contains(tt.data, "\n") {
				headers = append(headers, "Content-Type", "application/x-ndjson")
			}
			for range max(tt.repeat, 1) {
				p.publish(t, cmp.Or(tt.subject, "forewarm.telemetry.request.chat.talk"), []byte(tt.data), headers...)
			}
			p.settle(t)
			_, ready := testenv.Get(p.base + "/readyz")
			_, page := testenv.Get(p.base + "/")
			if tt.want == nil {
				if !strings.Contains(ready, `"none refused"`) || logged.Len() > 0 || strings.Contains(page, "<strong>telemetry") {
					t.Errorf("want nothing refused: /readyz has %s, the log has %v", ready, logged.All())
				}
				return
			}
			plain := strings.NewReplacer(`\"`, `"`, "&#34;", `"`, "&#39;", "'")
			for _, part := range tt.want {
				for where, text := range map[string]string{"/readyz": ready, "page": page} {
					if !strings.Contains(plain.Replace(text), part) {
						t.Errorf("%s has no %q:\n%s", where, part, text)
					}
				}
			}
			if logged.Len() != 1 || !strings.Contains(logged.All()[0].Message, "telemetry is refused or skipped: ") {
				t.Errorf("the log has %v, want one line about refused records", logged.All())
			}
		})
	}
}

// TestManyKindsOfRefusals: refusals of many producers take a bounded amount of memory.
func TestManyKindsOfRefusals(t *testing.T) {
	p := startDaemon(t, "clock: event", "pools:", badInputPool)
	for i := range 500 {
		p.publish(t, "forewarm.telemetry.request.chat.talk", []byte("no"), "Forewarm-Source", fmt.Sprint(i))
	}
	p.settle(t)
	p.mu.Lock()
	defer p.mu.Unlock()
	if n, text := len(p.refusedBy), p.refusedText(time.Now()); n != refusalKindsMax+1 || len(text) > 2000 || !strings.Contains(text, `"(others)"`) {
		t.Errorf("%d kinds are kept, and the text has %d bytes: %s", n, len(text), text)
	}
	if text := p.refusedText(time.Now().Add(2 * refusalShownFor)); text != "" {
		t.Errorf("after twice refusalShownFor: %s", text)
	}
}

// TestMissedDemandComesFirst: the text begins with the refusals that the alert counts, however many duplicates there are.
func TestMissedDemandComesFirst(t *testing.T) {
	p := startDaemon(t, "clock: event", "pools:", badInputPool)
	for reason, n := range map[ingest.Reason]uint64{
		ingest.ReasonDuplicate: 500, ingest.ReasonUnknownEvent: 400, ingest.ReasonFuture: 20, ingest.ReasonLate: 1, ingest.ReasonNotJSON: 2, "": 900,
	} {
		p.noteRefused(ingest.Refusal{Reason: reason, Detail: "detail"}, n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var got []string
	text := p.refusedText(time.Now())
	for part := range strings.SplitSeq(text, "; ") {
		got = append(got, strings.Fields(part)[0])
	}
	if want := []string{"20", "2", "1", "500", "and"}; !slices.Equal(got, want) || !strings.Contains(text, "and 2 kinds more") {
		t.Errorf("the counts are %v, want %v: %s", got, want, text)
	}
}

// TestPublishedExample runs the example of docs/integrations.md in a shell, with a nats command that prints the
// message. A daemon counts that record.
func TestPublishedExample(t *testing.T) {
	t.Parallel()
	page := must(os.ReadFile("../../docs/integrations.md"))
	_, block, _ := strings.Cut(string(page), "natscli):\n\n")
	block, _, _ = strings.Cut(block, "\n\n")
	script := "nats() { printf '%s\n%s' \"$2\" \"$3\"; }\n" + block
	out, err := exec.CommandContext(t.Context(), "sh", "-euc", script).Output()
	if err != nil || !strings.Contains(block, "nats pub") {
		t.Fatalf("%v in %s", err, script)
	}
	subject, record, _ := strings.Cut(string(out), "\n")
	p := startDaemon(t, "pools:", badInputPool)
	p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, time.Now().UnixMilli()))
	p.publish(t, subject, []byte(record))
	p.settle(t)
	if n := testenv.Metric(t, p.base, "forewarm_ingest_records_total"); n != 1 {
		t.Errorf("%v records are counted, want 1 of %s on %s: %s", n, record, subject, p.Status().Refused)
	}
}

// TestUnusedRequestsAreSeen: the next check of the daemon reports requests that a listener refuses, and records that
// are ignored. Only the listener runs, because a running daemon would make a check of its own.
func TestUnusedRequestsAreSeen(t *testing.T) {
	dir := t.TempDir()
	token := testenv.WriteFile(t, dir+"/token", "0123456789abcdef0123456789abcdef")
	d := must(newDaemon(t, dir, "clock: event", "pools:", badInputPool, "nats: {embedded: {listen: none}}",
		"listeners: {http: {listen: '127.0.0.1:0', token_file: "+token+"}}"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.intake.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, d.Close()); err != nil {
			t.Error(err)
		}
	})
	w := &selfWatch{began: time.Now(), alerts: new(alerting.AlertTracker)}
	d.checkSelf(w, time.Now())
	post := func(path, authorization, body string) {
		t.Helper()
		r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+d.intake.Addr()+path, strings.NewReader(body)))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", authorization)
		res := must(http.DefaultClient.Do(r))
		_ = res.Body.Close()
	}
	for range 7 {
		post("/v1/telemetry/litellm?pool=chat", "Bearer wrong", "{}")
		post("/v1/traces", "Bearer 0123456789abcdef0123456789abcdef",
			`{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"GET /","startTimeUnixNano":"1772438400000000000","endTimeUnixNano":"1772438401000000000"}]}]}]}`)
	}
	post("/v1/telemetry/dynamo?pool=chat", "Bearer 0123456789abcdef0123456789abcdef", `{"event_type":"request_end","schema":"x"}`) // 415
	post("/v1/telemetry/none?pool=chat", "Bearer 0123456789abcdef0123456789abcdef", "{}")
	for minute := range 2 {
		d.checkSelf(w, time.Now().Add(time.Duration(minute+1)*time.Minute))
	}
	s := d.Status()
	if !strings.Contains(s.Refused, "7 records are sound but ask for nothing of a pool") {
		t.Errorf("%q does not have the ignored records", s.Refused)
	}
	if !strings.Contains(s.Refused, "7 requests were answered 401 by listeners.http") || len(s.Alerts) != 1 ||
		!strings.Contains(testenv.Words(s.Alerts[0].Annotations), "9 of 9 records were refused, most often as http 401") {
		t.Errorf("%q, alerts %+v", s.Refused, s.Alerts)
	}
	if !strings.Contains(s.Refused, "1 requests were answered 404") || strings.Contains(s.Refused, "answered 415") {
		t.Errorf("%q: a request whose record was refused counts twice", s.Refused)
	}
}
