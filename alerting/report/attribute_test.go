package report

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// kind is what a class asks for in a minute.
type kind struct {
	requests, prompt, cached, output, token float64 // a second; tokens; of prompt; tokens; seconds to generate a token
	retries                                 float64 // attempts beyond the first, of requests
}

func (k *kind) demand() map[string]float64 {
	return map[string]float64{
		features.DimRequests: k.requests, features.DimPrefill: k.requests * (k.prompt - k.cached), features.DimCached: k.requests * k.cached,
		features.DimDecode: k.requests * k.output, features.DimKV: k.requests * (k.prompt + k.output/2) * k.output * k.token,
		features.DimRetry: k.requests * k.retries, features.DimRetryTokens: k.requests * k.retries * (k.prompt + k.output),
	}
}

// world is a pool over three hours, as forecast and as it came: what is planted changes the latter.
type world struct {
	came, foreseen func(minute int) []kind
	decide         func(minute int, d *alerting.Decision)
	seen           func(minute int) float64 // of demand, at the end of the minute
	late           func(minute int) float64 // tokens of output handed out with a minute
	every          int                      // minutes from one forecast, and decision, to the next
	roles          bool                     // prompts are computed on replicas of their own
}

const worldMinutes, planted, plantedFor = 420, 300, 30

func inPlanted(m int) bool { return m >= planted && m < planted+plantedFor }

// usualKinds rise and fall a little.
func usualKinds(m int) []kind {
	swing := 1 + .1*math.Sin(float64(m)/40)
	return []kind{
		{requests: 4 * swing, prompt: 1500, cached: 900, output: 250, token: .02, retries: .02},
		{requests: 1 * swing, prompt: 6000, cached: 2000, output: 400, token: .02, retries: .02},
		{requests: 9, prompt: 300, cached: 0, output: 60, token: .02, retries: .02},
	}
}

func newWorld() *world {
	return &world{every: 1, came: usualKinds, foreseen: usualKinds, decide: func(int, *alerting.Decision) {}, seen: func(int) float64 { return 1 }, late: func(int) float64 { return 0 }}
}

// plant changes what comes in the planted minutes.
func (w *world) plant(change func(k []kind)) {
	w.came = func(m int) []kind {
		k := usualKinds(m)
		if inPlanted(m) {
			change(k)
		}
		return k
	}
}

func (w *world) Observed(_ context.Context, from, to time.Time, fn func(features.Key, string, []float64) error) error {
	n := int(to.Sub(from) / time.Minute)
	for _, d := range features.Dimensions {
		for class := -1; class < len(usualKinds(0)); class++ {
			values := make([]float64, n)
			for i := range values {
				values[i] = math.NaN()
				if m := i + int(from.Sub(start)/time.Minute); m >= 0 && m < worldMinutes {
					values[i] = sumOf(w.came(m), d.Name, class)
				}
			}
			if err := fn(classKey(class), d.Name, values); err != nil {
				return err
			}
		}
	}
	return nil
}

func classKey(class int) features.Key {
	if class < 0 {
		return total
	}
	return features.Key{Pool: "p", Class: fmt.Sprint("c", class)}
}

// sumOf is the demand of a class, of all when it is negative.
func sumOf(kinds []kind, dimension string, class int) (sum float64) {
	for i := range kinds {
		if class < 0 || i == class {
			sum += kinds[i].demand()[dimension]
		}
	}
	return sum
}

func (w *world) Late(_ context.Context, from, to time.Time, fn func(features.Key, features.Late) error) error {
	var l features.Late
	for m := range worldMinutes {
		if at := minute(m); !at.Before(from) && at.Before(to) {
			l.OutputTokens += w.late(m)
			l.PromptTokens += 10 * w.late(m)
			l.KVTokenSeconds += 100 * w.late(m)
		}
	}
	return fn(classKey(0), l)
}

func (w *world) Forecasts(_ context.Context, from, to time.Time, fn func(*forecaster.Forecast) error) error {
	for class := -1; class < len(usualKinds(0)); class++ {
		for _, d := range features.Dimensions {
			for origin := range worldMinutes {
				if at := minute(origin); !d.Forecast || origin%w.every != 0 || at.Before(from) || !at.Before(to) {
					continue
				}
				y := func(h int) float64 { return w.seen(origin-1) * sumOf(w.foreseen(origin+h-1), d.Name, class) }
				most := 0.0
				for h := forecaster.WindowFrom; h <= forecaster.WindowTo; h++ {
					most = max(most, y(h))
				}
				f := forecaster.Forecast{Key: classKey(class), Dimension: d.Name, Origin: minute(origin)}
				for i, level := range forecaster.Levels {
					for h := range f.Minute {
						f.Minute[h][i] = math.NaN()
					}
					for _, h := range []int{5, 15, 30, 60} {
						f.Minute[h-1][i] = y(h) * (.5 + level)
					}
					f.WindowMax[i] = most * (.5 + level)
				}
				if err := fn(&f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// capacities of a replica: four are about two thirds full.
var capacities = map[string]float64{features.DimPrefill: 3500, features.DimDecode: 800, features.DimKV: 36000}

func (*world) Tokens(context.Context, string, time.Time, time.Time, func(features.Key, string, []float64) error) error {
	return nil
}

func (w *world) Decisions(_ context.Context, from, to time.Time, fn func(*alerting.Decision) error) error {
	for m := range worldMinutes {
		if at := minute(m); m%w.every != 0 || at.Before(from) || !at.Before(to) {
			continue
		}
		d := alerting.Decision{
			Pool: "p", Tick: minute(m), Mode: alerting.Active, Ready: 4, Desired: 4, Lead: 12 * time.Minute,
			Basis: &alerting.Basis{Warmup: alerting.WarmupBasis{P50: 360}},
		}
		for _, dim := range []string{features.DimPrefill, features.DimDecode, features.DimKV} {
			load, again := w.seen(m-1)*sumOf(w.came(m-1), dim, -1), retriesOf(w.came(m-1))
			of := &d.Resources
			if w.roles && dim == features.DimPrefill {
				of, d.ByRole = &d.Prompts, &alerting.Roles{Prefill: 3, Decode: 4}
			}
			*of = append(*of, alerting.ResourceEvidence{Dimension: dim, PerReplica: capacities[dim], Demand: load * (1 + again), Retries: &alerting.Retried{Factor: 1 + again, Demand: load}})
		}
		w.decide(m, &d)
		if err := fn(&d); err != nil {
			return err
		}
	}
	return nil
}

// plantedError is what is not as forecast, and what is to be said of it.
type plantedError struct {
	plant    func(w *world)
	resource string // of which errors are looked at; "" is all
	want     Cause
	class    string
	prompts  bool // prefill is off
}

var plantedErrors = map[string]plantedError{
	"a class doubles its prompts": {func(w *world) { w.plant(func(k []kind) { k[1].prompt *= 2; k[1].cached *= 2 }) }, "", CausePrompt, "c1", true},
	"answers are longer":          {func(w *world) { w.plant(func(k []kind) { k[0].output *= 2 }) }, "", CauseOutput, "c0", false},
	"the cache collapses":         {func(w *world) { w.plant(func(k []kind) { k[0].cached, k[1].cached = 0, 0 }) }, features.DimPrefill, CauseCache, "", true},
	"more of everything": {func(w *world) {
		w.plant(func(k []kind) { k[0].requests *= 1.6; k[1].requests *= 1.6; k[2].requests *= 1.6 })
	}, "", CauseDemand, "", true},
	"another mix":    {func(w *world) { w.plant(func(k []kind) { k[1].requests += 3; k[2].requests -= 3 }) }, "", CauseMix, "", true},
	"retries":        {func(w *world) { w.plant(func(k []kind) { k[0].retries, k[1].retries, k[2].retries = .8, .8, .8 }) }, "", CauseRetries, "", true},
	"slower service": {func(w *world) { w.plant(func(k []kind) { k[0].token, k[1].token, k[2].token = .04, .04, .04 }) }, features.DimKV, CauseHeld, "", false},
	"replicas carry less than was believed": {func(w *world) {
		w.decide = func(m int, d *alerting.Decision) {
			if m < planted+plantedFor {
				w.prefill(d).PerReplica *= 1.8 // learned to be wrong afterwards
			}
		}
	}, features.DimPrefill, CauseCapacity, "", true},
	"replicas are late": {func(w *world) {
		w.decide = func(m int, d *alerting.Decision) {
			if m < planted-10 {
				d.Ready, d.Desired = 2, 2
			} else if m < planted+plantedFor {
				d.Ready, d.Pending = 2, 2
			}
		}
	}, "", CauseWarmup, "", false},
	"what was forecast from had come late": {func(w *world) {
		w.seen = func(m int) float64 {
			if inPlanted(m) {
				return .5
			}
			return 1
		}
	}, "", CauseTelemetry, "", true},
	"what came is late beyond the bound": {func(w *world) {
		w.plant(func(k []kind) { k[0].requests /= 2; k[1].requests /= 2; k[2].requests /= 2 })
		w.late = func(m int) float64 {
			if inPlanted(m - 20) {
				return 60 * sumOf(w.came(m-20), features.DimDecode, -1)
			}
			return 0
		}
	}, "", CauseTelemetry, "", true},
	"a producer is silent": {func(w *world) {
		w.plant(func(k []kind) { k[0].requests = 0 })
		w.decide = func(m int, d *alerting.Decision) {
			if inPlanted(m - 3) {
				d.Basis.Faults = []features.ProducerFault{{Producer: "gw-2", Kind: features.FaultSilent}}
			}
		}
	}, "", CauseTelemetry, "", true},
}

// prefill is what a decision has of that resource.
func (w *world) prefill(d *alerting.Decision) *alerting.ResourceEvidence {
	if w.roles {
		return &d.Prompts[0]
	}
	return &d.Resources[0]
}

func TestPlantedErrors(t *testing.T) {
	for name, c := range plantedErrors {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			c.plant(w)
			p := &reconcile(t, w, 150, worldMinutes).Pools[0]
			c.check(t, p, c.resource)
			checkCounts(t, p)
		})
	}
	if errors := reconcile(t, newWorld(), 150, worldMinutes).Pools[0].Errors; len(errors) != 0 {
		t.Errorf("without anything planted: %v", errors)
	}
}

// TestPlantedErrorsOfRoles: in a disaggregated pool prefill is off for the same reasons, by replicas of its own.
func TestPlantedErrorsOfRoles(t *testing.T) {
	for name, c := range plantedErrors {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.roles = true
			c.plant(w)
			p := &reconcile(t, w, 150, worldMinutes).Pools[0]
			checkCounts(t, p)
			if c.prompts {
				c.check(t, p, features.DimPrefill)
			}
			for _, e := range p.Errors {
				if e.Resource == features.DimPrefill && !c.prompts {
					t.Errorf("%s ahead prefill is off by %.3f: %v", e.Horizon, e.Error, e.Parts)
				}
				if said := strings.Contains(e.Note, "replicas last asked for"); said != (e.Resource == features.DimPrefill) {
					t.Errorf("of %s is noted %q", e.Resource, e.Note)
				}
			}
			if c.resource != features.DimPrefill {
				others := *p
				others.Errors = slices.DeleteFunc(slices.Clone(p.Errors), func(e ErrorEpisode) bool { return e.Resource == features.DimPrefill })
				c.check(t, &others, c.resource)
			}
		})
	}
	w := newWorld()
	if w.roles = true; len(reconcile(t, w, 150, worldMinutes).Pools[0].Errors) != 0 {
		t.Error("an error without anything planted")
	}
	// Utilisation is of the three replicas that prefill, whatever the four that decode do.
	plantedErrors["a class doubles its prompts"].plant(w)
	r := reconcile(t, w, 150, worldMinutes)
	p := &r.Pools[0]
	i := slices.IndexFunc(p.Errors, func(e ErrorEpisode) bool { return e.Resource == features.DimPrefill && e.Horizon == "15" })
	if i < 0 {
		t.Fatal("no error of prefill")
	}
	demand := 0.0
	for m := planted; m < planted+plantedFor; m++ {
		demand += sumOf(w.came(m), features.DimPrefill, -1) * (1 + retriesOf(w.came(m)))
	}
	if want := demand / plantedFor / (3 * capacities[features.DimPrefill]); math.Abs(float64(p.Errors[i].Actual)-want) > 1e-9 {
		t.Errorf("prefill came to %.6f of capacity, and was %.6f", p.Errors[i].Actual, want)
	}
	var page strings.Builder
	if err := WriteMarkdown(&page, r); err != nil || strings.Count(page.String(), "Use of prefill is by the replicas last asked for") != 1 || strings.Count(page.String(), askedNote) != 1 {
		t.Errorf("%v: it is to be said once by which replicas prefill is used:\n%s", err, page.String())
	}
}

// retriesOf is the load of further attempts over that of calls.
func retriesOf(kinds []kind) float64 {
	again, calls := sumOf(kinds, features.DimRetryTokens, -1), 0.0
	for _, d := range []string{features.DimPrefill, features.DimDecode} {
		calls += sumOf(kinds, d, -1)
	}
	return again / calls
}

// check sees that the errors of a resource are found and mostly due to what was planted.
func (c *plantedError) check(t *testing.T, p *Pool, resource string) {
	t.Helper()
	if len(p.Errors) == 0 {
		t.Fatal("no error was found")
	}
	found := false
	for _, e := range p.Errors {
		checkSum(t, &e)
		if resource != "" && e.Resource != resource {
			continue
		}
		found = true
		largest := ErrorPart{}
		for _, p := range e.Parts {
			if math.Abs(float64(p.Amount)) > math.Abs(float64(largest.Amount)) {
				largest = p
			}
		}
		if largest.Cause != c.want || math.Abs(float64(largest.Amount)) < .6*math.Abs(float64(e.Error)) {
			t.Errorf("%s, %s ahead, is off by %.3f, most of it, %.3f, for %s: %v", e.Resource, e.Horizon, e.Error, largest.Amount, largest.Cause, e.Parts)
		}
		if c.class != "" && (len(e.Drivers) == 0 || e.Drivers[0].Class != c.class || e.Drivers[0].Cause != c.want) {
			t.Errorf("%s, %s ahead, driven by %v", e.Resource, e.Horizon, e.Drivers)
		}
	}
	if !found {
		t.Errorf("no error of %s among %v", resource, p.Errors)
	}
}

// TestErrorsAtAnyCadence: whoever forecasts less often is told of the same errors, about as long and as large.
func TestErrorsAtAnyCadence(t *testing.T) {
	at := func(every int, roles bool) map[string]LargeErrors {
		w := newWorld()
		w.every, w.roles = every, roles
		w.plant(func(k []kind) { k[0].requests *= 1.3; k[1].requests *= 1.3; k[2].requests *= 1.3 })
		found := map[string]LargeErrors{}
		for _, c := range reconcile(t, w, 150, worldMinutes).Pools[0].LargeErrors {
			found[c.Resource] = c
		}
		return found
	}
	for _, roles := range []bool{false, true} {
		each := at(1, roles)
		if len(each) == 0 || each[features.DimPrefill].Episodes != 1 {
			t.Fatalf("roles %v: %v", roles, each)
		}
		for _, every := range []int{3, 5, 15} {
			for key, c := range at(every, roles) {
				want := each[key]
				if c.Episodes != want.Episodes || math.Abs(float64(c.Minutes-want.Minutes)) > float64(every) ||
					math.Abs(float64(c.Size-want.Size)) > float64(every)*float64(want.Size)/float64(max(want.Minutes, 1)) {
					t.Errorf("roles %v, every %d minutes, %s: %+v, and each minute %+v", roles, every, key, c, want)
				}
			}
		}
	}
}

// checkCounts sees that errors which are not explained are counted.
func checkCounts(t *testing.T, p *Pool) {
	t.Helper()
	for _, c := range p.LargeErrors {
		explained := 0
		for _, e := range p.Errors {
			if e.Resource == c.Resource {
				explained++
			}
		}
		if c.Explained != explained || c.Episodes < explained || c.Size < c.ExplainedSize || c.Forecasts == 0 {
			t.Errorf("%d are explained, and counted are %+v", explained, c)
		}
	}
}

// checkSum sees that the parts of an error are all of it.
func checkSum(t interface{ Errorf(string, ...any) }, e *ErrorEpisode) {
	sum := Number(0)
	for _, p := range e.Parts {
		sum += p.Amount
	}
	if off := float64(sum - (e.Actual - e.Forecast)); !(math.Abs(off) < 1e-9*(1+math.Abs(float64(e.Forecast))+math.Abs(float64(e.Actual)))) || e.Error != e.Actual-e.Forecast {
		t.Errorf("the parts of %v−%v leave %v: %v", e.Actual, e.Forecast, off, e.Parts)
	}
}

// Whatever is forecast and comes, the parts add up to the whole.
func TestPartsAddUp(t *testing.T) {
	amount := rapid.OneOf(rapid.Just(0.), rapid.Float64Range(1e-3, 1e6))
	rapid.Check(t, func(t *rapid.T) {
		x := split{resource: rapid.SampledFrom([]string{features.DimRequests, features.DimPrefill, features.DimDecode, features.DimKV}).Draw(t, "resource")}
		x.lossy = rapid.Bool().Draw(t, "lossy")
		x.classes = make([]classSides, rapid.IntRange(1, 4).Draw(t, "classes"))
		for which := range x.pool {
			s := &x.pool[which]
			*s = side{retries: 1 + rapid.Float64Range(0, 3).Draw(t, "retries"), capacity: rapid.Float64Range(1, 1e6).Draw(t, "capacity"),
				ready: rapid.Float64Range(1, 100).Draw(t, "ready"), seen: rapid.Float64Range(leastSeen, 1.5).Draw(t, "seen")}
			for i := range x.classes {
				c := &x.classes[i].of[which]
				*c = shape{requests: amount.Draw(t, "requests"), prefill: amount.Draw(t, "prefill"), decode: amount.Draw(t, "decode"),
					demand: amount.Draw(t, "demand"), missed: rapid.SampledFrom([]float64{math.NaN(), 0, .01, .5, 1}).Draw(t, "missed")}
				switch x.resource {
				case features.DimRequests:
					c.demand = c.requests
				case features.DimPrefill:
					c.demand = c.prefill
				case features.DimDecode:
					c.demand = c.decode
				}
				s.demand += c.demand
			}
		}
		e := ErrorEpisode{Forecast: Number(x.pool[forecasted].utilisation()), Actual: Number(x.pool[actual].utilisation())}
		e.Error = e.Actual - e.Forecast
		parts, drivers := x.parts()
		for _, c := range causes {
			e.Parts = append(e.Parts, ErrorPart{c, Number(parts[c])})
			delete(parts, c)
		}
		checkSum(t, &e)
		if len(parts) != 0 {
			t.Errorf("causes that are not reported: %v", parts)
		}
		sum := Number(0)
		for _, d := range drivers {
			sum += d.Amount
		}
		if off := math.Abs(float64(sum - e.Error)); !(off < 1e-9*(1+math.Abs(float64(e.Forecast))+math.Abs(float64(e.Actual)))) {
			t.Errorf("drivers leave %v of %v", off, e.Error)
		}
	})
}
