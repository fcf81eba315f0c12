package alerting

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// track runs ticks, one letter each: c the condition is true, f it fades, s telemetry is stale, others it is false. It
// returns a letter for each tick: F the alert fires, R it is resolved, . neither.
func track(t *testing.T, b *AlertTracker, ticks string, change func(*Condition)) string {
	t.Helper()
	var out strings.Builder
	for i, tick := range ticks {
		var conditions []Condition
		c := Condition{Name: SaturationAhead, Pool: "p", Resource: "kv", Class: fmt.Sprint("class", i), Severity: Warning,
			Annotations: map[string]string{"summary": fmt.Sprint("tick ", i)}}
		if change != nil {
			change(&c)
		}
		switch tick {
		case 's':
			conditions = append(conditions, Condition{Name: TelemetryStale, Pool: "p", Ticks: 1000})
		case 'f':
			c.Fading = true
			fallthrough
		case 'c':
			conditions = append(conditions, c)
		}
		mark := "."
		for _, a := range b.Update(noon.Add(time.Duration(i)*time.Minute), conditions) {
			mark = "F"
			if a.Resolved {
				mark = "R"
			}
			if a.Resolved != !a.EndsAt.After(a.UpdatedAt) {
				t.Errorf("tick %d: resolved %t, but ends at %s", i, a.Resolved, a.EndsAt)
			}
		}
		out.WriteString(mark)
	}
	return out.String()
}

func TestAlertTracker(t *testing.T) {
	tests := map[string]struct {
		ticks, want string
		change      func(*Condition)
	}{
		"one tick is not enough":  {ticks: "c.c.c", want: "....."},
		"fires and is resolved":   {ticks: "ccc.......", want: ".FFFFFFR.."},
		"no flapping":             {ticks: "cc..c....c....", want: ".FFFFFFFFFFFFF"},
		"fading does not fire":    {ticks: "ffff", want: "...."},
		"fading between does not": {ticks: "cfcf", want: "...."},
		"fading keeps it firing":  {ticks: "ccffffffff", want: ".FFFFFFFFF"},
		"immediate":               {ticks: "c.....", want: "FFFFFR", change: func(c *Condition) { c.Ticks = 1 }},
		"its own number of ticks": {ticks: "cccccc", want: "....FF", change: func(c *Condition) { c.Ticks = 5 }},
		"stale keeps it firing":   {ticks: "ccssssssss.....", want: ".FFFFFFFFFFFFFR"},
		"stale does not fire":     {ticks: "csc", want: "..."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := track(t, new(AlertTracker), tt.ticks, tt.change); got != tt.want {
				t.Errorf("%s gives %s, want %s", tt.ticks, got, tt.want)
			}
		})
	}
}

func TestAlertTrackerLabels(t *testing.T) {
	b := new(AlertTracker)
	var first Alert
	for i := range 6 {
		now := noon.Add(time.Duration(i) * time.Minute)
		alerts := b.Update(now, []Condition{{Name: TooLateToWarm, Pool: "p", Resource: "kv", Class: fmt.Sprint("class", i), Severity: Page,
			Annotations: map[string]string{"summary": fmt.Sprint(i)}}})
		if i == 0 {
			continue
		}
		if i == 1 {
			first = alerts[0]
		}
		a := alerts[0]
		if diff := cmp.Diff(first.Labels, a.Labels); diff != "" || !a.StartsAt.Equal(first.StartsAt) {
			t.Errorf("tick %d: the labels or the start changed: %s", i, diff)
		}
		if a.Annotations["summary"] != fmt.Sprint(i) || !a.EndsAt.Equal(now.Add(4*time.Minute)) {
			t.Errorf("tick %d: annotations %v until %s, want those of this tick", i, a.Annotations, a.EndsAt)
		}
	}
}

func TestAlertTrackerRestore(t *testing.T) {
	const ticks = "cccf...ccsscc.......c"
	whole := track(t, new(AlertTracker), ticks, nil)
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	for cut := range ticks {
		b := new(AlertTracker)
		got := track(t, b, ticks[:cut], nil)
		data, err := enc.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		restored := new(AlertTracker)
		if err := cbor.Unmarshal(data, restored); err != nil {
			t.Fatal(err)
		}
		if got += track(t, restored, ticks[cut:], nil); got != whole {
			t.Errorf("restored after %d ticks: %s, want %s", cut, got, whole)
		}
	}
}

func TestAlertTrackerBound(t *testing.T) {
	b := new(AlertTracker)
	var conditions []Condition
	for i := range maxActive + 10 {
		conditions = append(conditions, Condition{Name: SaturationAhead, Pool: fmt.Sprint(i), Severity: Warning})
	}
	b.Update(noon, conditions)
	if len(b.Active) != maxActive || b.Dropped != 10 {
		t.Errorf("%d open, %d dropped, want %d and 10", len(b.Active), b.Dropped, maxActive)
	}
}

func TestConditions(t *testing.T) {
	saturating := func(p float64, p50 time.Duration) Decision {
		d := decided()
		d.Probability, d.ETA.P50 = p, p50
		d.Reserves.Failure, d.Resources[0].Probability, d.Resources[0].ETA.P50 = 0, p, p50
		return d
	}
	// reserved has one replica in reserve for failures. Demand is a share of the capacity of the others.
	reserved := func(p float64, others float64) Decision {
		d := saturating(p, forecaster.Never)
		d.Reserves.Failure, d.Resources[0].Demand = 1, others*float64(d.Ready-1)*d.Resources[0].PerReplica
		return d
	}
	with := func(d Decision, change func(*Decision)) Decision { change(&d); return d }
	tests := map[string]struct {
		decision Decision
		forecast *forecaster.PoolForecast
		want     string // name:severity, then ~ if fading, ! if immediate
	}{
		"calm":                    {decision: saturating(.1, forecaster.Never)},
		"ahead":                   {decision: saturating(.86, 19*time.Minute), want: "SaturationAhead:warning"},
		"less likely":             {decision: saturating(.4, forecaster.Never), want: "SaturationAhead:warning~"},
		"before the warm-up ends": {decision: saturating(.8, 12*time.Minute), want: "SaturationAhead:warning~ TooLateToWarm:page"},
		"probably before":         {decision: saturating(.95, 5*time.Minute), want: "SaturationAhead:warning~ TooLateToWarm:page!"},
		"in the first hour":       {decision: with(saturating(.95, 0), func(d *Decision) { d.Confidence = forecaster.Cold }), want: "SaturationAhead:warning~ TooLateToWarm:warning!"},
		"on assumed replicas":     {decision: with(saturating(.95, 0), func(d *Decision) { d.SupplyAssumed = true }), want: "SaturationAhead:warning~ TooLateToWarm:warning!"},
		"another resource binds":  {decision: with(saturating(.95, 0), func(d *Decision) { d.Binding = "decode" }), want: "SaturationAhead:warning~ TooLateToWarm:page!"},
		"a limit blocks": {decision: with(saturating(.8, 19*time.Minute), func(d *Decision) {
			d.Limit, d.Constraints = 16, []Constraint{{Key: "replicas.max", Bound: 16, Wanted: 19}}
		}), want: "SaturationAhead:warning AtCapacityLimit:page"},
		"a quota is exceeded":     {decision: with(saturating(.1, forecaster.Never), quota(17.4, 1)), want: "AtCapacityLimit:warning"},
		"a quota will be reached": {decision: with(saturating(.1, forecaster.Never), quota(7, .6)), want: "AtCapacityLimit:warning"},
		"a quota may be reached":  {decision: with(saturating(.1, forecaster.Never), quota(7, .4)), want: "AtCapacityLimit:warning~"},
		"a quota is far away":     {decision: with(saturating(.1, forecaster.Never), quota(7, .2))},
		"a limit that blocks little": {decision: with(saturating(.2, forecaster.Never), func(d *Decision) {
			d.Limit, d.Constraints = 16, []Constraint{{Key: "replicas.max", Bound: 16, Wanted: 19}}
		})},
		"a limit keeps a queue": {decision: with(saturating(.1, forecaster.Never), func(d *Decision) {
			d.Limit, d.Floor, d.Constraints = 16, 19, []Constraint{{Key: "replicas.max", Bound: 16, Wanted: 19}}
		}), want: "AtCapacityLimit:warning"},
		"a step limits, not a bound": {decision: with(saturating(.8, 19*time.Minute), func(d *Decision) {
			d.Desired, d.Constraints = 16, []Constraint{{Key: "scale_in_step", Bound: 1, Wanted: 19}}
		}), want: "SaturationAhead:warning"},
		"part of the reserve is needed": {decision: reserved(.1, 1.02), want: "BelowReserve:warning"},
		"the reserve is complete":       {decision: reserved(.1, .8)},
		"more than the reserve":         {decision: reserved(.6, 1.02), want: "SaturationAhead:warning BelowReserve:warning"},
		"demand beyond the reserve":     {decision: reserved(.95, 1.5), want: "SaturationAhead:warning"},
		"no room for the reserve": {decision: with(reserved(.1, 1.02), func(d *Decision) {
			d.Limit, d.Constraints = 18, []Constraint{{Key: "replicas.max", Bound: 18, Wanted: 19}}
		}), want: "BelowReserve:warning"},
		"stale hides the others":       {decision: with(saturating(.95, 0), func(d *Decision) { d.Stale = true }), want: "TelemetryStale:warning"},
		"fallback forecast":            {decision: saturating(.1, forecaster.Never), forecast: &forecaster.PoolForecast{Total: []forecaster.Forecast{{Dimension: "kv", Fallback: true}}}, want: "ForecastDegraded:warning"},
		"fallback of another resource": {decision: saturating(.1, forecaster.Never), forecast: &forecaster.PoolForecast{Total: []forecaster.Forecast{{Dimension: "decode", Fallback: true}}}},
		"a producer at fault": {decision: saturating(.1, forecaster.Never), forecast: &forecaster.PoolForecast{Minute: features.PoolMinute{
			Faults: []features.ProducerFault{{Producer: "gw", Kind: features.FaultAhead, Seconds: 90}}}}, want: "TelemetryFault:warning"},
		"retry storm":                {decision: saturating(.6, 19*time.Minute), forecast: retrying(.3, 100), want: "RetryStorm:warning SaturationAhead:warning"},
		"retries without saturation": {decision: saturating(.1, forecaster.Never), forecast: retrying(.3, 100), want: "RetryStorm:warning"},
		"fewer retries":              {decision: saturating(.1, forecaster.Never), forecast: retrying(.12, 100), want: "RetryStorm:warning~"},
		"usual retries":              {decision: saturating(.1, forecaster.Never), forecast: retrying(.05, 100)},
		"a few attempts":             {decision: saturating(.1, forecaster.Never), forecast: retrying(.5, 8)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			pf := tt.forecast
			if pf == nil {
				pf = &forecaster.PoolForecast{}
			}
			for _, c := range Conditions(&tt.decision, pf, DefaultConfig()) {
				s := strings.TrimPrefix(string(c.Name), "Forewarm") + ":" + string(c.Severity)
				if c.Fading {
					s += "~"
				}
				if c.Ticks == 1 {
					s += "!"
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(tt.want, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An alert says to raise the limit of the replicas, and nothing that is no limit: neither the bound on replicas for
// retries nor the step of a scale-in.
func TestLimitToRaise(t *testing.T) {
	for _, other := range []Constraint{{Key: "retries", Bound: 19, Wanted: 30}, {Key: "scale_in_step", Bound: 1, Wanted: 19}} {
		d := decided()
		d.Limit, d.Constraints = 16, []Constraint{other, {Key: "replicas.max", Bound: 16, Wanted: 19}}
		want := "Raise replicas.max: 19 replicas (reserve included) are needed, 16 are allowed."
		if got := d.advice("throttle requests"); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not have %q", other.Key, got, want)
		}
	}
}

// quota gives the pool a limit of 600 requests a minute, with the demand per second and the probability of reaching it.
func quota(perS, probability float64) func(*Decision) {
	return func(d *Decision) {
		d.Limits = []ResourceEvidence{{Dimension: "limits.requests_per_min", PerReplica: 10, Demand: perS, Probability: probability, ETA: forecaster.ETA{P50: 8 * time.Minute}}}
	}
}

func retrying(share, attempts float64) *forecaster.PoolForecast {
	return &forecaster.PoolForecast{Retries: forecaster.Retries{Share: share, Attempts: attempts}}
}

// A pool has one alert for all resources that run out, with the resource label of the first firing tick. Prefill
// replicas, each limit of the whole pool, each contradicted rate and each sink have their own alert.
func TestAlertIdentity(t *testing.T) {
	b := new(AlertTracker)
	for i, resource := range []string{"kv", "decode", "prefill", "kv"} {
		alerts := b.Update(noon.Add(time.Duration(i)*time.Minute), []Condition{
			{Name: SinkFailing, Resource: "nats", Severity: Warning}, {Name: SinkFailing, Resource: "webhook", Severity: Warning},
			{Name: SaturationAhead, Pool: "p", Resource: resource, Severity: Warning},
			{Name: SaturationAhead, Pool: "p", Resource: "limits.tokens_per_min", Severity: Warning},
			{Name: SaturationAhead, Pool: "p", Role: "prefill", Resource: "transfer", Severity: Warning},
			{Name: RateContradicted, Pool: "p", Resource: "kv", Severity: Warning}, {Name: RateContradicted, Pool: "p", Resource: "decode", Severity: Warning},
		})
		var got []string
		for _, a := range alerts {
			got = append(got, a.Identity())
		}
		want := []string{"ForewarmSinkFailing//nats", "ForewarmSinkFailing//webhook", "ForewarmRateContradicted/p/decode", "ForewarmRateContradicted/p/kv", "ForewarmSaturationAhead/p/decode", "ForewarmSaturationAhead/p/limits.tokens_per_min", "ForewarmSaturationAhead/p/transfer/role=prefill"}
		if diff := cmp.Diff(want, got); i > 0 && diff != "" {
			t.Errorf("tick %d: %s", i, diff)
		}
		reopened := new(AlertTracker)
		reopened.Reopen(alerts)
		if n := len(reopened.Update(noon.Add(time.Hour), nil)); n != len(alerts) {
			t.Errorf("%d of %d alerts continue", n, len(alerts))
		}
	}
}

// A warning that becomes a page fires again, as a page, because a changed label makes another alert.
func TestAlertTrackerSeverity(t *testing.T) {
	b := new(AlertTracker)
	var got []string
	for i, severity := range []Severity{Warning, Warning, Page, Warning, Page, Page, Warning} {
		now := noon.Add(time.Duration(i) * time.Minute)
		for _, a := range b.Update(now, []Condition{{Name: TooLateToWarm, Pool: "p", Resource: "kv", Severity: severity}}) {
			got = append(got, fmt.Sprintf("%d:%s since %d", i, a.Labels["severity"], int(a.StartsAt.Sub(noon).Minutes())))
		}
	}
	want := []string{"1:warning since 1", "2:warning since 1", "3:warning since 1", "4:warning since 1", "5:page since 5", "6:page since 5"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Alerts of a pool in advisory mode have the label mode.
func TestAlertTrackerMode(t *testing.T) {
	for mode, want := range map[Mode]string{Advisory: "advisory", Active: ""} {
		c := Condition{Name: TooLateToWarm, Pool: "p", Severity: Page, Ticks: 1, Annotations: map[string]string{"mode": string(mode)}}
		alerts := new(AlertTracker).Update(noon, []Condition{c})
		if got := alerts[0].Labels["mode"]; got != want {
			t.Errorf("%s: label mode is %q", mode, got)
		}
	}
}
