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

// definedConfig has pool p and accepts definitions of one more. The keys of a definition are the pool's replicas.max.
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
			return pool, errors.New("invalid")
		}
		pool.Zone, pool.Rates.PrefillTokensPerS = berlin, 100*float64(pool.Replicas.Max)
		return pool, nil
	}
	return c
}

func definitionOf(pool, keys string) ingest.Batch {
	return ingest.Batch{Definition: &ingest.Definition{Pool: pool, Keys: []byte(keys)}}
}

// minute is minute m of traffic of pool p and of pools, with the watermark at its end.
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

// TestDefine: a pool is served from its definition on, with the bounds of the newest one, also after a restore and
// after a start from the newest decisions. Definitions of configured pools, invalid ones and those above max_pools are
// refused with a reason.
func TestDefine(t *testing.T) {
	cfg := definedConfig(t)
	p, q := New(cfg), New(cfg) // q is stored and restored after each batch
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
		q = restarted(t, cfg, q)
		return b.Refused
	}
	refused := func(b ingest.Batch, want string) {
		t.Helper()
		if r := send(b); len(r) != 1 || r[0].Reason != ingest.ReasonBadDefinition || !strings.Contains(r[0].Detail, want) {
			t.Errorf("refused %v, want %q", r, want)
		}
	}
	if r := send(minute(0, "extra")); len(r) == 0 || r[0].Reason != ingest.ReasonUnknownPool {
		t.Errorf("before the definition: %v", r)
	}
	if r := send(definitionOf("extra", "8")); len(r) > 0 {
		t.Errorf("refused: %v", r)
	}
	for m := 1; m < 20; m++ {
		if r := send(minute(m, "extra")); len(r) > 0 {
			t.Fatalf("minute %d: %v", m, r)
		}
	}
	if decided != "extra ≤8 p ≤30 " {
		t.Errorf("decided %s", decided)
	}
	refused(definitionOf("p", "9"), "is in the configuration")
	refused(definitionOf("third", "9"), "max_pools is 2")
	refused(definitionOf("extra", "many"), "invalid")
	send(definitionOf("extra", "8"))
	send(minute(20, "extra"))
	send(definitionOf("extra", "12"))
	send(minute(21, "extra"))
	send(minute(22, "extra"))
	if decided != "extra ≤12 p ≤30 " {
		t.Errorf("decided %s", decided)
	}
	if !slices.Equal(got, same) || !bytes.Equal(saved(t, p), saved(t, q)) {
		t.Error("a pipeline that is restored after each batch has other outputs or another state")
	}

	state, err := p.DecisionState("extra")
	if err != nil {
		t.Fatal(err)
	}
	again := New(cfg)
	if err := again.Resume("extra", state); err != nil || again.pools[0].Decision.LastTick.IsZero() || again.pools[0].pool.Replicas.Max != 12 {
		t.Errorf("resumed with %v, %d pools", err, len(again.pools))
	}
	cfg.Pools = append(cfg.Pools, testPool(t, "extra"))
	again, err = Restore(cfg, bytes.NewReader(saved(t, p)))
	if err != nil || again.pools[0].pool.Replicas.Max != 30 || again.pools[0].Defined != nil || again.pools[0].Decision.LastTick.IsZero() {
		t.Errorf("%v: the pool is now configured, and the configuration is not used", err)
	}
}

// TestDefinitionEnds: a pool whose definition was withdrawn is served as long as there is telemetry. It is forgotten
// after an hour of silence, and a pool whose definition was not withdrawn after class_ttl. Then another pool can be
// defined.
func TestDefinitionEnds(t *testing.T) {
	cfg := definedConfig(t)
	cfg.Features.ClassTTL = 3 * time.Hour
	stale := false
	for _, c := range []struct {
		withdrawn bool
		after     int // minutes of silence
	}{{true, 60}, {false, 180}} {
		p := New(cfg)
		send := func(b ingest.Batch) []ingest.Refusal {
			p.Apply(&b, func(o *Output) {
				stale = stale || slices.ContainsFunc(o.Alerts, func(a alerting.Alert) bool { return a.Name == alerting.TelemetryStale })
			})
			return b.Refused
		}
		send(definitionOf("extra", "8"))
		m := 0
		for ; m < 30; m++ {
			if m == 5 && c.withdrawn {
				send(definitionOf("extra", ""))
			}
			if r := send(minute(m, "extra")); len(r) > 0 {
				t.Fatalf("minute %d: %v", m, r)
			}
		}
		quiet := m - 1
		for ; len(p.pools) == 2 && m < 400; m++ {
			send(minute(m))
			p = restarted(t, cfg, p)
		}
		if m-quiet < c.after || m-quiet > c.after+3 {
			t.Errorf("withdrawn %t: forgotten after %d minutes, want %d", c.withdrawn, m-quiet, c.after)
		}
		if r := send(definitionOf("third", "8")); len(r) > 0 {
			t.Errorf("the definition of the next pool is refused: %v", r)
		}
		if r := send(minute(m, "third")); len(r) > 0 {
			t.Errorf("traffic of the next pool: %v", r)
		}
		if stale == c.withdrawn {
			t.Errorf("withdrawn %t: alert of stale telemetry %t", c.withdrawn, stale)
		}
		for end := m + 30; m < end; m++ { // until alerts end
			send(minute(m, "third"))
		}
		for _, x := range []string{"extra", "third"} {
			if has := bytes.Contains(saved(t, p), []byte(x)); has == (x == "extra") {
				t.Errorf("the state has %s: %t", x, has)
			}
		}
	}
}
