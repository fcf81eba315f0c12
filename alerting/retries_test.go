package alerting

import (
	"math"
	"strings"
	"testing"
)

// Calls need 350 KV tokens on replicas of 100. Retries multiply the load, and may request only a bounded number of
// replicas.
func TestReplicasForRetries(t *testing.T) {
	tests := map[string]struct {
		factor  float64
		edit    func(*Input)
		desired int
		says    string // of the reason and the constraints
	}{
		"no retries":                    {1, nil, 4, ""},
		"half of the calls are retried": {1.5, nil, 6, "1.5 times as large; without them demand alone would need 4 replicas."},
		"above the bound":               {5, nil, 12, "retries 12: 18 wanted"},
		"an idle pool": {2, func(in *Input) {
			in.Minute.State.KVUsedMax, in.Minute.State.WaitingPerReady = .2, 0
		}, 4, "does not ask for 3 more replicas: the engines have room"},
		"KV use is not reported": {2, func(in *Input) { in.Minute.State.KVUsedMax = math.NaN() }, 7, "2.0 times as large"},
		"an idle pool whose queue is not reported": {2, func(in *Input) {
			in.Minute.State.KVUsedMax, in.Minute.State.WaitingPerReady = .2, math.NaN()
		}, 7, "2.0 times as large"},
		"one replica": {1.2, func(in *Input) {
			in.Minute.State.KVUsedMax, in.Minute.State.WaitingPerReady = .2, 0
		}, 4, "1 more replica: the engines have room"},
		"a reserve":            {1.5, func(in *Input) { in.Pool.Reserves.Failure = 1 }, 7, "without them demand alone would need 4 replicas."},
		"too few to need more": {1.12, nil, 4, "1.1 times as large."},
		"an idle pool with a queue": {2, func(in *Input) {
			in.Minute.State.KVUsedMax, in.Minute.State.WaitingPerReady, in.Minute.QueueGrowing = .2, 2, true
		}, 7, "2.0 times as large"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			in := scene{ready: 4, median: flat(350), last: 350}.input(t)
			in.Minute.State.KVUsedMax = .6
			if tt.edit != nil {
				tt.edit(&in)
			}
			for i := range in.Forecast.Total {
				in.Forecast.Total[i].LoadFactor = tt.factor
			}
			in.Forecast = in.Forecast.Load()
			d, _ := Decide(noon, in, State{}, DefaultConfig())
			if said := d.Reason + strings.Join(texts(d.Constraints), "; "); d.Desired != tt.desired || !strings.Contains(said, tt.says) {
				t.Errorf("%d desired, want %d: %s", d.Desired, tt.desired, said)
			}
		})
	}
}

// TestPrefillForRetries: the engines that report are decode replicas. That they have room says nothing about prefill
// replicas.
func TestPrefillForRetries(t *testing.T) {
	in := scene{ready: 4, median: flat(350), last: 350, edit: disaggregated(4000)}.input(t)
	in.Minute.State.KVUsedMax, in.Minute.State.WaitingPerReady = .2, 0
	for i := range in.Forecast.Total {
		in.Forecast.Total[i].LoadFactor = 2
	}
	d, _ := Decide(noon, in, State{}, DefaultConfig())
	if d.ByRole.PrefillNeeded != 4 {
		t.Errorf("%d prefill replicas are needed for 4000 tokens/s with retries, want 4: %s", d.ByRole.PrefillNeeded, d.Reason)
	}
}
