package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// definedConfig serves pool p, and takes the definitions of two others whose keys are their largest size.
func definedConfig(t testing.TB) Config {
	c := eventConfig(t, "p")
	c.MaxPools = 2
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	c.Define = func(name string, keys []byte) (capacity.Pool, error) {
		pool := testPool(t, name)
		if _, err := fmt.Sscan(string(keys), &pool.Replicas.Max); err != nil {
			return pool, errors.New("unsound")
		}
		pool.Zone, pool.Rates.PrefillTokensPerS = berlin, 100*float64(pool.Replicas.Max)
		return pool, nil
	}
	return c
}

func defining(pool, keys string) ingest.Batch {
	return ingest.Batch{Definition: &ingest.Definition{Pool: pool, Keys: []byte(keys)}}
}

// minute is traffic of pool p and of the pool noted, with the minute's end.
func minute(m int, pools ...string) ingest.Batch {
	at := midnight.Add(time.Duration(m) * time.Minute)
	b := ingest.Batch{Sequence: uint64(m + 1), Watermark: &ingest.Watermark{Pool: "p", At: at.Add(time.Minute)}}
	for _, pool := range append(pools, "p") {
		for i := range 5 + m%7 {
			b.Requests = append(b.Requests, ingest.Request{
				ID: fmt.Sprint(pool, m, i), Pool: pool, Class: "chat", Attempt: 1, ArrivedAt: at.Add(time.Duration(i) * time.Second),
				PromptTokens: 2000, CachedTokens: ingest.Unknown, OutputTokens: 300, MaxOutputTokens: ingest.Unknown,
			})
		}
	}
	return b
}

// TestDefine: a pool is served from its definition on and bounded by the newest one, also after a restore and after a
// start from the newest decisions. Definitions of configured pools, unsound ones and those beyond max_pools are refused
// with a reason.
func TestDefine(t *testing.T) {
	cfg := definedConfig(t)
	p, q := New(cfg), New(cfg) // q is restored all the time
	var got, same []string
	var decided string
	send := func(b ingest.Batch) []ingest.Refusal {
		t.Helper()
		x := b
		x.Requests = slices.Clone(b.Requests)
		p.Apply(&b, func(o *Output) {
			got, decided = append(got, encoded(o)), ""
			for i := range o.Decisions {
				decided += fmt.Sprintf("%s ≤%d ", o.Decisions[i].Pool, o.Decisions[i].Limit)
			}
		})
		q.Apply(&x, func(o *Output) { same = append(same, encoded(o)) })
		q = reborn(t, cfg, q)
		return b.Refused
	}
	refused := func(b ingest.Batch, want string) {
		t.Helper()
		if r := send(b); len(r) != 1 || r[0].Reason != ingest.ReasonBadDefinition || !strings.Contains(r[0].Detail, want) {
			t.Errorf("refused %v, want %q", r, want)
		}
	}
	if r := send(minute(0, "noted")); len(r) == 0 || r[0].Reason != ingest.ReasonUnknownPool {
		t.Errorf("before its definition: %v", r)
	}
	if r := send(defining("noted", "8")); len(r) > 0 {
		t.Errorf("refused: %v", r)
	}
	for m := 1; m < 20; m++ {
		if r := send(minute(m, "noted")); len(r) > 0 {
			t.Fatalf("minute %d: %v", m, r)
		}
	}
	if decided != "noted ≤8 p ≤30 " {
		t.Errorf("decided %s", decided)
	}
	refused(defining("p", "9"), "is in the configuration")
	refused(defining("third", "9"), "max_pools is 2")
	refused(defining("noted", "many"), "unsound")
	send(defining("noted", "8"))
	send(minute(20, "noted"))
	send(defining("noted", "12"))
	send(minute(21, "noted"))
	send(minute(22, "noted"))
	if decided != "noted ≤12 p ≤30 " {
		t.Errorf("decided %s", decided)
	}
	if !slices.Equal(got, same) || !bytes.Equal(saved(t, p), saved(t, q)) {
		t.Error("a pipeline that is restored all the time differs")
	}

	state, err := p.DecisionState("noted")
	if err != nil {
		t.Fatal(err)
	}
	again := New(cfg)
	if err := again.Resume("noted", state); err != nil || again.pools[0].Decision.LastTick.IsZero() || again.pools[0].pool.Replicas.Max != 12 {
		t.Errorf("resumed with %v, %d pools", err, len(again.pools))
	}
	cfg.Pools = append(cfg.Pools, testPool(t, "noted")) // and now it is configured
	again, err = Restore(cfg, bytes.NewReader(saved(t, p)))
	if err != nil || again.pools[0].pool.Replicas.Max != 30 || again.pools[0].Defined != nil || again.pools[0].Decision.LastTick.IsZero() {
		t.Errorf("%v: the configuration did not win", err)
	}
}

// TestDefinitionEnds: without its definition a pool is served as long as there is telemetry. It is forgotten after an
// hour of silence when the definition was taken back, else after class_ttl; then another pool has its place.
func TestDefinitionEnds(t *testing.T) {
	cfg := definedConfig(t)
	cfg.Features.ClassTTL = 3 * time.Hour
	stale := false
	for _, c := range []struct {
		takenBack bool
		after     int // minutes of silence
	}{{true, 60}, {false, 180}} {
		p := New(cfg)
		send := func(b ingest.Batch) []ingest.Refusal {
			p.Apply(&b, func(o *Output) {
				stale = stale || slices.ContainsFunc(o.Alerts, func(a alerting.Alert) bool { return a.Name == alerting.TelemetryStale })
			})
			return b.Refused
		}
		send(defining("noted", "8"))
		m := 0
		for ; m < 30; m++ {
			if m == 5 && c.takenBack {
				send(defining("noted", ""))
			}
			if r := send(minute(m, "noted")); len(r) > 0 {
				t.Fatalf("minute %d: %v", m, r)
			}
		}
		quiet := m - 1
		for ; len(p.pools) == 2 && m < 400; m++ {
			send(minute(m))
			p = reborn(t, cfg, p)
		}
		if m-quiet < c.after || m-quiet > c.after+3 {
			t.Errorf("taken back %t: forgotten after %d minutes, want %d", c.takenBack, m-quiet, c.after)
		}
		if r := send(defining("third", "8")); len(r) > 0 {
			t.Errorf("the place is not free: %v", r)
		}
		if r := send(minute(m, "third")); len(r) > 0 {
			t.Errorf("the next pool: %v", r)
		}
		if stale == c.takenBack {
			t.Errorf("taken back %t: alert of stale telemetry %t", c.takenBack, stale)
		}
		for end := m + 30; m < end; m++ { // alerts end
			send(minute(m, "third"))
		}
		for _, x := range []string{"noted", "third"} {
			if has := bytes.Contains(saved(t, p), []byte(x)); has == (x == "noted") {
				t.Errorf("the state has %s: %t", x, has)
			}
		}
	}
}
