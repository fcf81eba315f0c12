package main

import (
	"context"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm"
	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
)

// plantedClasses is a history of tokens/s by class, and of class agent by tenant.
type plantedClasses struct {
	planted
	classes, tenants map[string]func(m int) float64
}

// filled are the values of each minute of [from, to), NaN before plantedStart.
func filled(from, to time.Time, of func(m int) float64) (values []float64) {
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		v := math.NaN()
		if m := int(at.Sub(plantedStart) / time.Minute); m >= 0 {
			v = of(m)
		}
		values = append(values, v)
	}
	return values
}

func (p plantedClasses) Observed(_ context.Context, from, to time.Time, fn func(features.Key, string, []float64) error) error {
	total := filled(from, to, func(int) float64 { return 0 })
	for class, of := range p.classes {
		values := filled(from, to, of)
		for i, v := range values {
			total[i] += v
		}
		if err := fn(features.Key{Pool: "p", Class: class}, features.DimDecode, values); err != nil {
			return err
		}
	}
	return fn(features.Key{Pool: "p", Class: features.TotalClass}, features.DimDecode, total)
}

// Decisions are none, so that decisions cannot be run again.
func (plantedClasses) Decisions(context.Context, time.Time, time.Time, func(*alerting.Decision) error) error {
	return nil
}

func (p plantedClasses) Tenants(_ context.Context, from, to time.Time, fn func(features.Key, string, []float64) error) error {
	for tenant, of := range p.tenants {
		if err := fn(features.Key{Pool: "p", Class: "agent"}, tenant, filled(from, to, of)); err != nil {
			return err
		}
	}
	return nil
}

// seldom has calls now and then.
func seldom(seed uint64) func(int) float64 {
	return func(m int) float64 {
		if draw := rand.New(rand.NewPCG(seed, uint64(m))); draw.Float64() < .02 {
			return 50 * math.Exp(.5*draw.NormFloat64())
		}
		return 0
	}
}

// wander is a level of which nothing but the newest value tells.
func wander() func(int) float64 {
	draw, level, values := rand.New(rand.NewPCG(3, 0)), 0.0, make([]float64, plantedDays*24*60)
	for m := range values {
		level = .995*level + .05*draw.NormFloat64()
		values[m] = 600 * math.Exp(level)
	}
	return func(m int) float64 { return values[m] }
}

func TestSuggestClasses(t *testing.T) {
	steady := func(m int) float64 { return 900 * noise(m, .05) }
	job := func(m int) float64 { return 500 * (1 + math.Sin(float64(m)*2*math.Pi/120)) * noise(m, .02) }
	users := wander()
	for name, c := range map[string]struct {
		history plantedClasses
		want    string // to what classify.rules are set
		saves   bool   // losses, not series
	}{
		"rare classes": {
			plantedClasses{classes: map[string]func(int) float64{"agent": steady, "eval": seldom(1), "export": seldom(2)}},
			"[{class: rare, override: true, pool: [p], given: [", false,
		},
		"a job among users": {
			plantedClasses{
				classes: map[string]func(int) float64{"agent": func(m int) float64 { return job(m) + users(m) }},
				tenants: map[string]func(int) float64{"acme": job, "": users},
			},
			"[{class: agent-acme, override: true, pool: [p], given: [agent], tenant: [acme]}]", true,
		},
		"tenants alike": {
			plantedClasses{
				classes: map[string]func(int) float64{"agent": func(m int) float64 { return 3 * steady(m) }},
				tenants: map[string]func(int) float64{"acme": steady, "": func(m int) float64 { return 2 * steady(m+7) }},
			},
			"", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := suggestedClasses(t, c.history)
			switch {
			case c.want == "" && len(p.Suggestions) == 0:
				if !strings.Contains(p.SuggestionsTried, "acme") || !strings.Contains(p.SuggestionsTried, "None is suggested.") {
					t.Errorf("what was tried is not said: %s", p.SuggestionsTried)
				}
				return
			case len(p.Suggestions) != 1 || !strings.HasPrefix(p.Suggestions[0].To, c.want) || c.want == "":
				t.Fatalf("suggested %+v, want %q; %s", p.Suggestions, c.want, p.SuggestionsTried)
			}
			e := p.Suggestions[0].Expected.Forecast
			if e == nil || !(e.MinutesBefore > 0) || c.saves != (e.SeriesAfter > e.SeriesBefore) || c.saves && !(e.MinutesAfter+e.WindowAfter < e.MinutesBefore+e.WindowBefore) {
				t.Errorf("expected effect %+v", e)
			}
		})
	}
}

func (plantedClasses) Tails(context.Context, time.Time, time.Time, func(features.Key, string, []float64) error) error {
	return nil
}

// suggestedClasses is the report on a pool of which only classes can be run again.
func suggestedClasses(t *testing.T, h plantedClasses) report.Pool {
	t.Helper()
	pool, err := capacity.New(capacity.Config{Name: "p", DecodeTokensPerS: 1000, Replicas: capacity.Replicas{Min: 1, Max: 40}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := forewarm.DefaultConfig()
	cfg.Pools = []capacity.Pool{pool}
	r := &report.Report{From: plantedStart.AddDate(0, 0, 1), To: plantedStart.AddDate(0, 0, plantedDays), Pools: []report.Pool{{Pool: "p"}}}
	done := 0
	if err := suggest(t.Context(), h, cfg, 200, r, func(now, all int) {
		if now < done || now > all {
			t.Fatalf("progress %d of %d after %d", now, all, done)
		}
		done = now
	}); err != nil {
		t.Fatal(err)
	}
	return r.Pools[0]
}

// What is printed can be pasted, and does what it says to requests of producers and of the rules in force.
func TestSuggestedRules(t *testing.T) {
	inForce := []features.Rule{{Class: "agent", Route: []string{"/v1/agents/*"}}, {Class: "eval", Feature: []string{"e val"}}, {Class: "eval", Pool: []string{"other"}}}
	for name, c := range map[string]struct {
		rules []features.Rule
		want  map[string]ingest.Request // by class
	}{
		"dividing": {dividing(inForce, "p", "agent", "on", "agent-on"), map[string]ingest.Request{
			"agent-on": {Pool: "p", Class: "agent", Tenant: "on"}, "": {Pool: "p", Class: "agent", Tenant: "two"}, "agent": {Pool: "p", Route: "/v1/agents/x", Tenant: "two"},
		}},
		"dividing what a rule gives": {dividing(inForce, "p", "agent", "on", "agent-on"), map[string]ingest.Request{
			"agent-on": {Pool: "p", Route: "/v1/agents/x", Tenant: "on"}, "agent": {Pool: "other", Route: "/v1/agents/x", Tenant: "on"},
		}},
		"joining": {joining(inForce, "p", "rare", []string{"eval", "a: b"}), map[string]ingest.Request{
			"rare": {Pool: "p", Class: "a: b"}, "": {Pool: "other", Class: "a: b"}, "agent": {Pool: "p", Route: "/v1/agents/x"},
		}},
		"joining what a rule gives": {joining(inForce, "p", "rare", []string{"eval", "a: b"}), map[string]ingest.Request{
			"rare": {Pool: "p", Feature: "e val"}, "eval": {Pool: "other"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(path, []byte("classify: {rules: "+rulesYAML(c.rules)+"}\npools: [{name: p, kv_capacity_tokens: 1000, replicas: {max: 2}}]\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(path)
			if err != nil {
				t.Fatalf("%s: %v", rulesYAML(c.rules), err)
			}
			classifier := features.NewClassifier(features.ClassifyConfig{Rules: append(cfg.Classify.Rules, inForce...)})
			for want, r := range c.want {
				if got, _ := classifier.Class(&r); got != want {
					t.Errorf("%+v is of class %q, want %q", r, got, want)
				}
			}
		})
	}
}
