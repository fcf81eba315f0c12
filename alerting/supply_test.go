package alerting

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			state:  State{LastTick: noon, LastDesired: 7, Pending: []time.Time{ago(14), ago(3), ago(2)}},
			minute: features.PoolState{Observed: true, Ready: 4},
			want:   forecaster.Supply{Ready: 4, Pending: []time.Time{ago(3), ago(2)}}, observed: true, // without the one older than the lead time of 13 minutes
		},
		"reports are of the oldest requests": {
			state:  State{LastTick: noon, LastDesired: 7, Pending: []time.Time{ago(4), ago(3), ago(2)}},
			minute: features.PoolState{Observed: true, Ready: 4, Pending: 2, PendingSince: []time.Time{ago(3), ago(1)}},
			want:   forecaster.Supply{Ready: 4, Pending: []time.Time{ago(3), ago(2), ago(1)}}, observed: true,
		},
		"a replica is not ready after a scale-in, although it reports": {
			state:  State{LastTick: noon, LastDesired: 3, LastScaleIn: ago(5)},
			minute: features.PoolState{Observed: true, Ready: 4},
			want:   forecaster.Supply{Ready: 3}, observed: true,
		},
		"it is ready if it still reports after the lead time": {
			state:  State{LastTick: noon, LastDesired: 3, LastScaleIn: ago(13)},
			minute: features.PoolState{Observed: true, Ready: 4},
			want:   forecaster.Supply{Ready: 4}, observed: true,
		},
		"reports count, not assumptions": {
			state: assumed, minute: features.PoolState{Observed: true, Ready: 5, Pending: 2, PendingSince: []time.Time{ago(3).Add(700 * time.Millisecond)}},
			want: forecaster.Supply{Ready: 5, Pending: []time.Time{ago(3), noon}}, observed: true,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, observed := CurrentSupply(noon, features.PoolMinute{State: tt.minute}, &pool, tt.state, Active)
			if diff := cmp.Diff(tt.want, got); diff != "" || observed != tt.observed {
				t.Errorf("observed %t: %s", observed, diff)
			}
		})
	}
}

func TestUpdateSupply(t *testing.T) {
	early, late := noon.Add(-2*time.Minute), noon.Add(-time.Minute)
	supply := forecaster.Supply{Ready: 3, Pending: []time.Time{early, late}}
	tests := map[string]struct {
		desired  int
		advised  bool
		observed bool
		was      []time.Time
		want     State
	}{
		"a request is pending from now on":      {desired: 6, advised: true, want: State{Ready: 3, Pending: []time.Time{early, late, noon}}},
		"the newest request is withdrawn":       {desired: 4, advised: true, want: State{Ready: 3, Pending: []time.Time{early}}},
		"then ready replicas are removed":       {desired: 1, advised: true, want: State{Ready: 1, Pending: []time.Time{}}},
		"nobody obeys":                          {desired: 9, want: State{Ready: 3, Pending: []time.Time{early, late}}},
		"requests without a report are kept":    {desired: 6, advised: true, observed: true, was: []time.Time{early}, want: State{Ready: 3, Pending: []time.Time{early, noon, noon}}},
		"the oldest request is fulfilled first": {desired: 4, advised: true, observed: true, was: []time.Time{early, late}, want: State{Ready: 3, Pending: []time.Time{late}}},
		"nobody obeys, observed":                {desired: 9, observed: true, want: State{Ready: 3, Pending: []time.Time{early, late}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			st := State{Pending: tt.was}
			s := forecaster.Supply{Ready: supply.Ready, Pending: append([]time.Time(nil), supply.Pending...)}
			st.updateSupply(noon, s, tt.observed, tt.desired, tt.advised)
			if diff := cmp.Diff(tt.want, st); diff != "" {
				t.Error(diff)
			}
		})
	}
}
