package sink

import (
	"bytes"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/testenv"
)

// faultTest is a sink and what its consumer has seen.
type faultTest struct {
	sink alerting.Sink

	mu       sync.Mutex
	attempts []time.Time // when attempts reached the consumer
	taken    []string    // ids of the notices that the consumer processed, with repeats
}

func (r *faultTest) attempted() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts = append(r.attempts, time.Now())
	return len(r.attempts)
}

func (r *faultTest) take(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = append(r.taken, id)
}

// outcome is what must happen to a notice whose first delivery fails.
type outcome int

const (
	repaired outcome = iota // delivered by the second attempt, processed once
	repeated                // delivered by the second attempt, processed twice under one id
	refused                 // not tried again
	disabled                // not tried again, and no later notice is sent
	never                   // each attempt fails
)

// httpFaults are faults of an HTTP consumer at the first attempt. Later attempts succeed, unless the outcome says
// otherwise.
var httpFaults = []struct {
	name  string
	serve func(w http.ResponseWriter, r *http.Request) // nil: the port is closed at first
	tls   bool                                         // TLS with an unknown certificate
	takes bool                                         // processes the notice, but does not acknowledge it
	signs bool                                         // only for sinks that sign messages
	wait  time.Duration                                // least time to the second attempt
	want  outcome
}{
	{name: "connection refused"},
	{name: "500", serve: status(500)},
	{name: "503", serve: status(503)},
	{name: "429", serve: status(429)},
	{name: "429 with Retry-After", wait: time.Second, serve: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}},
	{name: "408", serve: status(408)},
	{name: "slow", serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	{name: "reset", serve: func(w http.ResponseWriter, _ *http.Request) { hangUp(w, "") }},
	{name: "reset mid-body", serve: func(w http.ResponseWriter, _ *http.Request) {
		hangUp(w, "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 900\r\n\r\nhalf")
	}},
	{name: "not HTTP", serve: func(w http.ResponseWriter, _ *http.Request) { hangUp(w, "SSH-2.0-OpenSSH_9.2\r\n") }},
	{name: "processed, answer lost", takes: true, want: repeated, serve: func(w http.ResponseWriter, _ *http.Request) { hangUp(w, "") }},
	{name: "processed, answer late", takes: true, want: repeated, serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	{name: "processed, then 502 of a proxy", takes: true, want: repeated, serve: status(502)},
	{name: "unknown TLS certificate", tls: true, want: never, serve: status(200)},
	{name: "400", serve: status(400), want: refused},
	{name: "401", serve: status(401), want: refused},
	{name: "404", serve: status(404), want: refused},
	{name: "redirect", want: refused, serve: func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/elsewhere", http.StatusPermanentRedirect)
	}},
	{name: "signature of another key", want: refused, signs: true, serve: func(w http.ResponseWriter, r *http.Request) {
		verifier, _ := standardwebhooks.NewWebhook(otherKey)
		body, _ := io.ReadAll(r.Body)
		if err := verifier.Verify(body, r.Header); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
		}
	}},
	{name: "410", serve: status(410), want: disabled},
}

func status(code int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", code) }
}

// hangUp writes text and closes the connection.
func hangUp(w http.ResponseWriter, text string) {
	c, b, _ := http.NewResponseController(w).Hijack()
	b.WriteString(text)
	b.Flush()
	c.Close()
}

func TestHTTPFaults(t *testing.T) {
	for sinkName, kind := range kinds {
		for _, fault := range httpFaults {
			if kind.id == nil || fault.signs && !kind.signs {
				continue
			}
			t.Run(sinkName+"/"+fault.name, func(t *testing.T) {
				t.Parallel()
				r, want := &faultTest{}, fault.want
				if want == disabled {
					want = kind.gone
				}
				handler := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					body, _ := io.ReadAll(req.Body)
					req.Body = io.NopCloser(bytes.NewReader(body))
					if n := r.attempted(); fault.serve == nil || n > 1 && want < refused {
						r.take(kind.id(req, body))
						return
					}
					if fault.takes {
						r.take(kind.id(req, body))
					}
					fault.serve(w, req)
				})
				server := httptest.NewUnstartedServer(handler)
				if fault.serve == nil {
					server.Listener.Close()
					address := server.Listener.Addr().String()
					r.sink = kind.open(t, "http://"+address, nil)
					r.run(t, want, 0, func() {
						l, err := net.Listen("tcp", address)
						if err != nil {
							t.Error(err)
							return
						}
						server.Listener = l
						server.Start()
					})
				} else {
					if fault.tls {
						server.Config.ErrorLog = log.New(io.Discard, "", 0) // without errors of handshakes
						server.StartTLS()
					} else {
						server.Start()
					}
					r.sink = kind.open(t, server.URL, nil)
					r.run(t, want, fault.wait, nil)
				}
				server.CloseClientConnections()
				server.Close()
			})
		}
	}
}

// run delivers one notice and checks the outcome. It calls afterFirst after the first failure. A second sink works, and
// must get the notice without delay.
func (r *faultTest) run(t *testing.T, want outcome, wait time.Duration, afterFirst func()) {
	t.Helper()
	const least = 4 // retries without success, for the outcome never
	failures := make(chan error, 100)
	first := sync.OnceFunc(func() {
		if afterFirst != nil {
			afterFirst()
		}
	})
	working := &fakeSink{name: "working"}
	log := newMemoryLog()
	d := NewDispatcher([]alerting.Sink{r.sink, working}, log.open, func(_ string, _ alerting.Notice, _ int, err error) {
		if err == nil {
			return
		}
		first()
		select {
		case failures <- err:
		default:
		}
	})
	for _, l := range d.lanes { // TestDispatcherBacksOff tests the real pace
		l.pace = pace{250 * time.Millisecond, 20 * time.Millisecond, 20 * time.Millisecond}
	}
	stop := dispatch(t, d)
	n := alert("llama", false)
	log.enqueue(n)
	stats := func() alerting.SinkStats { return d.Stats()[0] }
	testenv.Await(t, "the working sink to get the notice", func() bool { return d.Stats()[1].Sent == 1 })
	testenv.Await(t, "an outcome", func() bool {
		s := stats()
		return s.Sent > 0 || s.Failed > 0 || s.Retried >= least
	})
	if stats().Disabled { // the notice of the next tick is not sent
		log.enqueue(n)
		testenv.Await(t, "the next notice to lapse", func() bool { return stats().Lapsed > 0 })
	}
	_ = stop()

	s := stats()
	got := map[outcome]bool{
		repaired: s.Sent == 1 && s.Retried >= 1,
		repeated: s.Sent == 1 && s.Retried >= 1,
		refused:  s.Failed == 1 && s.Retried == 0 && !s.Disabled,
		disabled: s.Failed == 1 && s.Retried == 0 && s.Disabled && s.Lapsed >= 1,
		never:    s.Sent == 0 && s.Failed == 0 && s.Retried >= least,
	}
	if !got[want] {
		t.Errorf("want outcome %d: %+v, failure: %v", want, s, <-failures)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if takes := map[outcome]int{repaired: 1, repeated: 2}[want]; len(r.taken) != takes || len(slices.Compact(slices.Clone(r.taken))) > 1 {
		t.Errorf("the consumer processed %q, want %d under one id", r.taken, takes)
	}
	if want == refused && len(r.attempts) != 1 {
		t.Errorf("refused: %d attempts, want 1", len(r.attempts))
	}
	if wait > 0 && r.attempts[1].Sub(r.attempts[0]) < wait {
		t.Errorf("the second attempt came after %s, want at least %s", r.attempts[1].Sub(r.attempts[0]), wait)
	}
}

// natsFaults are faults of the stream at the first attempt.
var natsFaults = []struct {
	name  string
	err   error // nil: no answer
	takes bool
	want  outcome
}{
	{name: "no stream", err: jetstream.ErrNoStreamResponse},
	{name: "connection closed", err: nats.ErrConnectionClosed},
	{name: "no answer"},
	{name: "stored, answer lost", takes: true, want: repeated},
	{name: "stored, connection lost", err: nats.ErrConnectionClosed, takes: true, want: repeated},
	{name: "too large", err: nats.ErrMaxPayload, want: refused},
	{name: "bad subject", err: nats.ErrBadSubject, want: refused},
}

// publisher is a stream whose first answer is a fault.
type publisher struct {
	*faultTest
	err   error
	takes bool
	want  outcome
}

func (p *publisher) PublishMsg(ctx context.Context, m *nats.Msg, _ ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if n := p.attempted(); n > 1 && p.want < refused {
		p.take(m.Header.Get(jetstream.MsgIDHeader))
		return &jetstream.PubAck{}, nil
	}
	if p.takes {
		p.take(m.Header.Get(jetstream.MsgIDHeader))
	}
	if p.err == nil {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, p.err
}

func TestNATSRetries(t *testing.T) {
	for _, fault := range natsFaults {
		t.Run(fault.name, func(t *testing.T) {
			t.Parallel()
			r := &faultTest{}
			r.sink = NewNATS(&publisher{r, fault.err, fault.takes, fault.want}, "fw")
			r.run(t, fault.want, 0, nil)
		})
	}
}
