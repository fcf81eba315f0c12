package alerting

import (
	"cmp"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

func TestCurrentSupply(t *testing.T) {
	pool, err := capacity.New(capacity.Config{Name: "p", Replicas: capacity.Replicas{Max: 9, Initial: 3}}, nil) // warm-up p50 6 min, p90 12 min
	if err != nil {
		t.Fatal(err)
	}
	ago := func(minutes int) time.Time { return noon.Add(-time.Duration(minutes) * time.Minute) }
	assumed := State{LastTick: noon, Ready: 2, Pending: []time.Time{ago(20), ago(12), ago(7), noon}}
	tests := map[string]struct {
		minute   features.PoolState
		state    State
		want     forecaster.Supply
		observed bool
	}{
		"nothing is known":            {want: forecaster.Supply{Ready: 3}},
		"assumed ready after the p90": {state: assumed, want: forecaster.Supply{Ready: 4, Pending: []time.Time{ago(7), noon}}},
		"requests that do not report yet are pending": {
			state:  State{LastTick: noon, Delivered: new(7), Pending: []time.Time{ago(14), ago(3), ago(2)}},
			minute: features.PoolState{Observed: true, Ready: 4},
			want:   forecaster.Supply{Ready: 4, Pending: []time.Time{ago(3), ago(2)}}, observed: true, // without the one older than the lead time of 13 minutes
		},
		"reports are of the oldest requests": {
			state:  State{LastTick: noon, Delivered: new(7), Pending: []time.Time{ago(4), ago(3), ago(2)}},
			minute: features.PoolState{Observed: true, Ready: 4, Pending: 2, PendingSince: []time.Time{ago(3), ago(1)}},
			want:   forecaster.Supply{Ready: 4, Pending: []time.Time{ago(3), ago(2), ago(1)}}, observed: true,
		},
		"a replica is not ready after a scale-in, although it reports": {
			state:  State{LastTick: noon, Delivered: new(3), LastScaleIn: ago(5)},
			minute: features.PoolState{Observed: true, Ready: 4},
			want:   forecaster.Supply{Ready: 3}, observed: true,
		},
		"it is ready if it still reports after the lead time": {
			state:  State{LastTick: noon, Delivered: new(3), LastScaleIn: ago(13)},
			minute: features.PoolState{Observed: true, Ready: 4},
			want:   forecaster.Supply{Ready: 4}, observed: true,
		},
		"reports count, not assumptions": {
			state: assumed, minute: features.PoolState{Observed: true, Ready: 5, Pending: 1, PendingSince: []time.Time{ago(3).Add(700 * time.Millisecond)}},
			want: forecaster.Supply{Ready: 5, Pending: []time.Time{ago(3)}}, observed: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, observed := CurrentSupply(noon, features.PoolMinute{State: tt.minute}, &pool, tt.state, Active)
			if diff := gocmp.Diff(tt.want, got); diff != "" || observed != tt.observed {
				t.Errorf("observed %t: %s", observed, diff)
			}
		})
	}
}

func TestUpdateSupply(t *testing.T) {
	early, late := noon.Add(-2*time.Minute), noon.Add(-time.Minute)
	tests := map[string]struct {
		decision Decision
		was      State
		want     State
	}{
		"a request is pending from now on": {decision: Decision{Desired: 6, SupplyAssumed: true}, want: State{Delivered: new(6), Pending: []time.Time{early, late, noon}}},
		"the newest request is withdrawn":  {decision: Decision{Desired: 4, SupplyAssumed: true}, want: State{Delivered: new(4), Pending: []time.Time{early}}},
		"then ready replicas are removed":  {decision: Decision{Desired: 1, SupplyAssumed: true}, want: State{Delivered: new(1), Ready: 1, Pending: []time.Time{}}},
		"nobody obeys":                     {decision: Decision{Desired: 9, SupplyAssumed: true, Mode: Advisory}, want: State{Pending: []time.Time{early, late}}},
		"requests without a report are kept": {
			decision: Decision{Desired: 6}, was: State{Pending: []time.Time{early}},
			want: State{Delivered: new(6), Pending: []time.Time{early, noon, noon}},
		},
		"the oldest request is fulfilled first": {
			decision: Decision{Desired: 4}, was: State{Pending: []time.Time{early, late}}, want: State{Delivered: new(4), Pending: []time.Time{late}},
		},
		"nobody obeys, observed": {decision: Decision{Desired: 9, Mode: Advisory}, was: State{Delivered: new(9)}, want: State{Pending: []time.Time{early, late}}},
		"the request before a decision that is withheld": {
			decision: Decision{Desired: 9, Withheld: "stale"}, was: State{Delivered: new(4), Pending: []time.Time{early, late}},
			want: State{Delivered: new(4), Pending: []time.Time{late}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.decision.Tick, tt.decision.Mode = noon, cmp.Or(tt.decision.Mode, Active)
			tt.want.Ready = cmp.Or(tt.want.Ready, 3)
			st := tt.was
			st.updateSupply(&tt.decision, forecaster.Supply{Ready: 3, Pending: []time.Time{early, late}})
			if diff := gocmp.Diff(tt.want, st); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSupplyAfterUndeliveredDecisions: only requests that autoscalers received correct the reported supply. Each step is
// a decision, a minute after the one before.
func TestSupplyAfterUndeliveredDecisions(t *testing.T) {
	type step struct {
		scene
		mode Mode
	}
	const demand9, demand4, demand7 = 900, 350, 650
	cold := func(in *Input) { in.Projection.Confidence, in.Forecast.Total[0].Known = forecaster.Cold, 2 }
	stale := func(in *Input) { in.Forecast.Stale = true }
	for name, tt := range map[string]struct {
		steps                      []step
		ready, pending, unreported int // at the last one
	}{
		"withheld in the first minutes": {[]step{
			{scene{ready: 4, pending: 2, median: flat(demand9), last: demand9, edit: cold}, Active},
			{scene{ready: 4, pending: 2, median: flat(demand9), last: demand9, edit: cold}, Active},
			{scene{ready: 4, pending: 2, median: flat(demand9), last: demand9}, Active},
		}, 4, 2, 0},
		"advisory, then active": {[]step{
			{scene{ready: 4, pending: 2, median: flat(demand9), last: demand9}, Advisory},
			{scene{ready: 4, pending: 2, median: flat(demand9), last: demand9}, Active},
		}, 4, 2, 0},
		"a scale-in in advisory mode, then active": {[]step{
			{scene{ready: 8, median: flat(demand4), last: demand4}, Advisory},
			{scene{ready: 8, median: flat(demand4), last: demand4}, Active},
		}, 8, 0, 0},
		"a request, then a minute without telemetry": {[]step{
			{scene{ready: 4, median: flat(demand7), last: demand7}, Active},
			{scene{ready: 4, median: flat(demand7), last: demand7, edit: stale}, Active},
			{scene{ready: 4, median: flat(demand7), last: demand7}, Active},
		}, 4, 3, 3},
		"a request, then advisory, then active": {[]step{
			{scene{ready: 4, median: flat(demand7), last: demand7}, Active},
			{scene{ready: 4, pending: 1, median: flat(demand7), last: demand7}, Advisory},
			{scene{ready: 4, pending: 1, median: flat(demand7), last: demand7}, Active},
		}, 4, 1, 0},
	} {
		st := State{UsableSince: noon.Add(-time.Hour)}
		var d Decision
		for i, s := range tt.steps {
			cfg := DefaultConfig()
			cfg.Mode = s.mode
			d, st = Decide(noon.Add(time.Duration(i)*time.Minute), s.input(t), st, cfg)
		}
		if d.Ready != tt.ready || d.Pending != tt.pending || d.Unreported != tt.unreported {
			t.Errorf("%s: %d ready, %d pending, %d of them unreported; want %d, %d, %d", name, d.Ready, d.Pending, d.Unreported, tt.ready, tt.pending, tt.unreported)
		}
	}
}
