package report

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

var start = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

// close equates numbers up to rounding, and unknown ones.
var close = cmp.Comparer(func(a, b Number) bool {
	return math.Abs(float64(a-b)) < 1e-9 || math.IsNaN(float64(a)) && math.IsNaN(float64(b))
})

func minute(m int) time.Time { return start.Add(time.Duration(m) * time.Minute) }

// past is a history in memory. Demand is in requests/s by minute from start.
type past struct {
	demand    map[features.Key][]float64
	forecasts []forecaster.Forecast
	decisions []alerting.Decision
}

var total = features.Key{Pool: "p", Class: features.TotalClass}

func (h *past) Observed(_ context.Context, from, to time.Time, fn func(features.Key, string, []float64) error) error {
	for key, demand := range h.demand {
		var values []float64
		for t := from; t.Before(to); t = t.Add(time.Minute) {
			values = append(values, at(demand, int(t.Sub(start)/time.Minute)))
		}
		if err := fn(key, features.DimRequests, values); err != nil {
			return err
		}
	}
	return nil
}

func (h *past) Forecasts(_ context.Context, from, to time.Time, fn func(*forecaster.Forecast) error) error {
	for i := range h.forecasts {
		if f := h.forecasts[i]; !f.Origin.Before(from) && f.Origin.Before(to) {
			if err := fn(&f); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *past) Decisions(_ context.Context, from, to time.Time, fn func(*alerting.Decision) error) error {
	for i := range h.decisions {
		if d := h.decisions[i]; !d.Tick.Before(from) && d.Tick.Before(to) {
			if err := fn(&d); err != nil {
				return err
			}
		}
	}
	return nil
}

// forecast has quantiles around median for the horizons 5 and 15. Other horizons are unknown.
func forecast(key features.Key, origin int, median, windowMax float64) forecaster.Forecast {
	f := forecaster.Forecast{Key: key, Dimension: features.DimRequests, Origin: minute(origin)}
	for i, level := range forecaster.Levels {
		for h := range f.Minute {
			f.Minute[h][i] = math.NaN()
		}
		f.Minute[4][i] = median * (0.5 + level)
		f.Minute[14][i] = f.Minute[4][i]
		f.WindowMax[i] = windowMax * (0.5 + level)
	}
	return f
}

func reconcile(t *testing.T, h History, from, to int) *Report {
	t.Helper()
	r, err := Reconcile(context.Background(), h, Span{minute(from), minute(to), time.UTC})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// ramp grows by one each minute; forecasts are two too high. A gap is at minutes 90 to 94.
func ramp() *past {
	h := &past{demand: map[features.Key][]float64{total: nil}}
	for m := range 240 {
		y := float64(100 + m)
		if m >= 90 && m < 95 {
			y = math.NaN()
		}
		h.demand[total] = append(h.demand[total], y)
		h.forecasts = append(h.forecasts, forecast(total, m, float64(100+m+4+2), float64(100+m+29)))
	}
	return h
}

func TestAccuracy(t *testing.T) {
	r := reconcile(t, ramp(), 60, 120)
	if len(r.Pools) != 1 || len(r.Pools[0].Accuracy) != 3 {
		t.Fatalf("%+v", r.Pools)
	}
	// Minutes 60…119 without 90…94 are outcomes of the horizon 5. The last value is five behind. Targets 95…99 have
	// none: the minute before their origins is in the gap.
	sum := 0.0
	for m := 60; m < 120; m++ {
		if m < 90 || m >= 95 {
			sum += float64(100 + m)
		}
	}
	got := r.Pools[0].Accuracy[0]
	want := Accuracy{
		Class: "*", Dimension: "requests", Unit: "1/s", Horizon: "5", Outcomes: 55, Missing: 5, Mean: Number(sum / 55),
		WAPE: Number(2 * 55 / sum), Bias: Number(2 * 55 / sum), Skill: 1 - 2.0/5,
		Q90: forecaster.Coverage{Share: 1, Low: 0, High: 0, Effective: 11},
	}
	opts := []cmp.Option{close, cmpopts.IgnoreFields(forecaster.Coverage{}, "Low", "High")}
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Error(diff)
	}
	// Forecasts five minutes ahead overlap, so 55 outcomes count as 11. Wilson's interval of 11 in 11 begins at
	// n/(n+z²).
	if low := got.Q90.Low; low < 0.74 || low > 0.75 {
		t.Errorf("the interval of 11 out of 11 begins at %v", low)
	}
	// The window maximum of origin o is the demand of minute o+29. It is missing if one of the minutes o+14…o+29 is:
	// windows whose last minute is 90…109 overlap the gap.
	got = r.Pools[0].Accuracy[2]
	if got.Horizon != forecaster.HorizonWindowMax || got.Outcomes != 40 || got.Missing != 20 || got.WAPE != 0 {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(Data{Minutes: 60, Observed: 55}, r.Pools[0].Data); diff != "" {
		t.Error(diff)
	}
}

func TestTotals(t *testing.T) {
	chat := features.Key{Pool: "p", Class: "chat"}
	h := &past{
		demand: map[features.Key][]float64{total: slices.Repeat([]float64{2}, 240), chat: slices.Repeat([]float64{1, math.NaN()}, 120)},
	}
	r := reconcile(t, h, 60, 120)
	nan := Number(math.NaN())
	want := []Total{
		{Class: "*", Requests: 60 * 60 * 2, PromptTokens: nan, CachedTokens: nan, OutputTokens: nan},
		{Class: "chat", Requests: 30 * 60, PromptTokens: nan, CachedTokens: nan, OutputTokens: nan},
	}
	if diff := cmp.Diff(want, r.Pools[0].Totals, close); diff != "" {
		t.Error(diff)
	}
}

// Each outcome is in one period: the reports of two adjacent periods count the same as one report of both.
func TestAdjacentPeriods(t *testing.T) {
	h := ramp()
	counts := func(from, to int) (out [3][2]int) {
		for i, a := range reconcile(t, h, from, to).Pools[0].Accuracy {
			out[i] = [2]int{a.Outcomes, a.Missing}
		}
		return out
	}
	whole := counts(60, 200)
	for _, cut := range []int{61, 92, 100, 150, 199} {
		a, b := counts(60, cut), counts(cut, 200)
		for i := range a {
			for j := range a[i] {
				a[i][j] += b[i][j]
			}
		}
		if a != whole {
			t.Errorf("cut at %d: %v, want %v", cut, a, whole)
		}
	}
}

func TestAccuracyOrder(t *testing.T) {
	h := &past{demand: map[features.Key][]float64{}}
	for _, class := range []string{"*", "#", "a"} {
		h.forecasts = append(h.forecasts, forecast(features.Key{Pool: "p", Class: class}, 70, 1, 1))
	}
	var got []string
	for _, a := range reconcile(t, h, 60, 120).Pools[0].Accuracy {
		got = append(got, a.Class+" "+a.Horizon)
		if a.Outcomes != 0 || a.Missing != 1 || !math.IsNaN(float64(a.WAPE)) {
			t.Errorf("unknown demand is scored: %+v", a)
		}
	}
	if diff := cmp.Diff([]string{"* 5", "* 15", "* max15_30", "# 5", "# 15", "# max15_30", "a 5", "a 15", "a max15_30"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestPeriodBounds(t *testing.T) {
	for name, to := range map[string]time.Time{"empty": minute(0), "backwards": minute(-5), "endless": start.AddDate(1, 0, 0)} {
		if _, err := Reconcile(context.Background(), &past{}, Span{start, to, time.UTC}); err == nil {
			t.Errorf("%s period: no error", name)
		}
	}
}

func decision(m, ready int, probability float64) alerting.Decision {
	return alerting.Decision{
		Pool: "p", Tick: minute(m), Mode: alerting.Advisory, Action: alerting.Hold, Ready: ready, Desired: ready,
		Lead: 10 * time.Minute, WarnFrom: .5,
		Resources: []alerting.ResourceEvidence{{Dimension: features.DimRequests, PerReplica: 10, Ahead: probability}},
	}
}

func TestSaturations(t *testing.T) {
	type during [2]int // [from, to)
	nan := math.NaN()
	for name, c := range map[string]struct {
		high, unknown, warned, scaled, stale []during // demand 25 instead of 15; unknown; probability .9 instead of 0; 3 ready instead of 2; stale
		want                                 Saturation
	}{
		"calm":            {want: Saturation{KnownMinutes: 120, LeadMinutes: Number(nan)}},
		"in time":         {high: []during{{100, 105}}, warned: []during{{85, 100}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 5, InTime: 1, LeadMinutes: 15}},
		"late":            {high: []during{{100, 105}}, warned: []during{{96, 100}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 5, Late: 1, LeadMinutes: 4}},
		"missed":          {high: []during{{100, 105}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 5, Missed: 1, LeadMinutes: Number(nan)}},
		"warned after":    {high: []during{{100, 105}}, warned: []during{{101, 110}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 5, Missed: 1, LeadMinutes: Number(nan)}},
		"warning too old": {high: []during{{130, 131}}, warned: []during{{85, 90}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 1, Missed: 1, False: 1, LeadMinutes: Number(nan)}},
		"false warning":   {warned: []during{{85, 90}}, want: Saturation{KnownMinutes: 120, False: 1, LeadMinutes: Number(nan)}},
		"averted":         {high: []during{{100, 105}}, warned: []during{{85, 95}}, scaled: []during{{98, 180}}, want: Saturation{KnownMinutes: 120, Averted: 1, LeadMinutes: 15}},
		"open at the end": {warned: []during{{170, 180}}, want: Saturation{KnownMinutes: 120, Open: 1, LeadMinutes: Number(nan)}},
		"open in a gap":   {warned: []during{{85, 90}}, unknown: []during{{95, 96}}, want: Saturation{KnownMinutes: 119, Open: 1, LeadMinutes: Number(nan)}},
		"one episode":     {high: []during{{100, 102}, {112, 113}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 3, Missed: 1, LeadMinutes: Number(nan)}},
		"two episodes":    {high: []during{{100, 102}, {113, 114}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 3, Missed: 2, LeadMinutes: Number(nan)}},
		"two, one leads":  {high: []during{{100, 101}, {140, 141}}, warned: []during{{85, 90}, {120, 135}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 2, InTime: 2, LeadMinutes: 17.5}},
		"from before":     {high: []during{{55, 65}}, warned: []during{{50, 55}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 5, LeadMinutes: Number(nan)}},
		"false before":    {warned: []during{{45, 50}}, want: Saturation{KnownMinutes: 120, LeadMinutes: Number(nan)}},
		"stale":           {warned: []during{{85, 90}}, stale: []during{{80, 95}}, want: Saturation{KnownMinutes: 120, LeadMinutes: Number(nan)}},
		"warned before":   {high: []during{{62, 65}}, warned: []during{{45, 55}}, want: Saturation{KnownMinutes: 120, SaturatedMinutes: 3, InTime: 1, LeadMinutes: 17}},
	} {
		t.Run(name, func(t *testing.T) {
			in := func(spans []during, m int) bool {
				for _, s := range spans {
					if m >= s[0] && m < s[1] {
						return true
					}
				}
				return false
			}
			h := &past{demand: map[features.Key][]float64{}}
			for m := range 200 {
				y, ready, p := 15.0, 2, 0.0
				if in(c.high, m) {
					y = 25
				}
				if in(c.unknown, m) {
					y = nan
				}
				if in(c.scaled, m) {
					ready = 3
				}
				if in(c.warned, m) {
					p = .9
				}
				h.demand[total] = append(h.demand[total], y)
				d := decision(m, ready, p)
				d.Stale = in(c.stale, m)
				h.decisions = append(h.decisions, d)
			}
			got := reconcile(t, h, 60, 180).Pools[0].Saturation
			if diff := cmp.Diff(c.want, got, close, cmpopts.IgnoreFields(Saturation{}, "Episodes")); diff != "" {
				t.Error(diff)
			}
			if len(got.Episodes) != got.InTime+got.Late+got.Missed {
				t.Errorf("%d episodes", len(got.Episodes))
			}
			for _, e := range got.Episodes {
				if e.Resource != features.DimRequests || math.Abs(float64(e.Utilisation)-1.25) > 1e-9 {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

// Without a ready replica, any load saturates the pool if replicas report. If none reports, nothing is known.
func TestNoReadyReplica(t *testing.T) {
	for name, c := range map[string]struct {
		demand  float64
		assumed bool
		want    Saturation
	}{
		"outage":     {demand: 50, want: Saturation{KnownMinutes: 60, SaturatedMinutes: 60}},
		"no demand":  {want: Saturation{KnownMinutes: 60, False: 1}},
		"no reports": {demand: 50, assumed: true, want: Saturation{Open: 1}},
	} {
		h := &past{demand: map[features.Key][]float64{}}
		for m := range 200 {
			d := decision(m, 0, 0)
			if d.SupplyAssumed = c.assumed; m >= 70 && m < 75 {
				d.Resources[0].Ahead = .9
			}
			h.demand[total], h.decisions = append(h.demand[total], c.demand), append(h.decisions, d)
		}
		got := reconcile(t, h, 60, 120).Pools[0].Saturation
		if diff := cmp.Diff(c.want, got, cmpopts.IgnoreFields(Saturation{}, "Episodes", "LeadMinutes")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestDecisions(t *testing.T) {
	h := &past{}
	for m := 0; m < 180; m += 5 { // a decision every five minutes, none from 100 to 149
		if m >= 100 && m < 150 {
			continue
		}
		d := decision(m, 2, 0)
		if m >= 80 {
			d.Desired, d.Action, d.ByRole = 4, alerting.ScaleOut, &alerting.Roles{}
		}
		h.decisions = append(h.decisions, d)
	}
	p := reconcile(t, h, 60, 120).Pools[0]
	want := Decisions{Mode: "advisory", DecodeOnly: true, Actions: 1}
	if diff := cmp.Diff(want, p.Decisions, cmpopts.EquateApprox(0, 1e-12), close, cmpopts.IgnoreFields(Decisions{}, "Provision")); diff != "" {
		t.Error(diff)
	}
	// The last one before the gap is valid for 15 minutes, 95 to 109.
	if p.Data.Decided != 50 || p.Data.Observed != 0 {
		t.Errorf("%+v", p.Data)
	}
}

// A decision warns if the probability within the span of warnings reaches its threshold.
func TestWarningThreshold(t *testing.T) {
	for name, c := range map[string]struct {
		ahead, warnFrom float64
		inTime, missed  int
	}{
		"warned":     {ahead: .3, warnFrom: .2, inTime: 1},
		"not warned": {ahead: .3, warnFrom: .4, missed: 1},
	} {
		h := &past{demand: map[features.Key][]float64{}}
		for m := range 200 {
			y, d := 15.0, decision(m, 2, .1)
			if m >= 120 && m < 125 {
				y = 25
			}
			if d.WarnFrom = c.warnFrom; m >= 90 && m < 97 { // the last is 24 minutes before: the span is the lead of 10 minutes plus 15
				d.Resources[0].Ahead = c.ahead
			}
			h.demand[total] = append(h.demand[total], y)
			h.decisions = append(h.decisions, d)
		}
		if s := reconcile(t, h, 60, 180).Pools[0].Saturation; s.InTime != c.inTime || s.Missed != c.missed || s.False != 0 {
			t.Errorf("%s: %d in time, %d missed, %d false", name, s.InTime, s.Missed, s.False)
		}
	}
}

// An episode has the forecast of its peak, and the cause in the decision of that minute.
func TestEpisode(t *testing.T) {
	h := &past{demand: map[features.Key][]float64{}}
	for m := range 200 {
		all, d := 15., decision(m, 2, 0)
		if m >= 120 && m < 125 {
			all, d.Drivers = 25, []forecaster.Driver{{Class: "agent", Share: .6, Cause: forecaster.CauseRate, Factor: float64(m - 118)}}
		}
		if m == 123 {
			all = 29
		}
		h.demand[total] = append(h.demand[total], all)
		h.decisions = append(h.decisions, d)
		h.forecasts = append(h.forecasts, forecast(total, m, 12, 12))
	}
	want := []Episode{{Start: minute(120), Minutes: 5, Resource: "requests", Utilisation: 29. / 20, Forecast: 12. / 20, Outcome: Missed,
		LeadMinutes: Number(math.NaN()), Cause: "Class agent causes it: 5.0 times as many requests within an hour."}}
	if diff := cmp.Diff(want, reconcile(t, h, 60, 180).Pools[0].Saturation.Episodes, close); diff != "" {
		t.Error(diff)
	}
}
