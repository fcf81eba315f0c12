package forecaster

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// evenly is a pool whose paths are spread evenly from 0 to 100 at an origin, each the same in all minutes.
func evenly(minute int) PoolForecast {
	pf := ramp("kv", 0, 0)
	pf.Origin = minuteAt(minute)
	for j := range pf.Paths.At[0] {
		for h := range Horizon {
			pf.Paths.At[0][j][h] = 100 * (float32(j) + .5) / NumPaths
		}
	}
	return pf
}

// TestOutlookLearnsWhatPathsAreWorth: where demand reaches the paths' upper half three times in four, a share of paths of
// one half becomes a probability of three quarters, whatever the supply was; and times to saturation follow.
func TestOutlookLearnsWhatPathsAreWorth(t *testing.T) {
	const window = 5 * time.Minute
	rng := rand.New(rand.NewPCG(1, 1))
	var o Outlook
	demand := map[int64]float64{}
	at := func(_ string, minute int64) float64 { return demand[minute] }
	minutes := 6000
	for m := range minutes {
		if m%5 == 0 {
			y := 100 * math.Sqrt(rng.Float64()) // P(y > 50) = 3/4
			for k := range int64(5) {
				demand[minuteAt(m).Unix()/60+k] = y
			}
		}
		o.Learn(minuteAt(m), at)
		if m%5 == 0 {
			pf := evenly(m)
			p := Project(&pf, fixedCapacity{"kv": 100}, fixedLag(time.Minute), Supply{Ready: 4}, 0, window, &o)
			o.Issue(&pf, &p, 0, window)
		}
	}
	pf := evenly(minutes)
	for _, tt := range []struct{ capacity, raw, want float64 }{{50, .5, .75}, {80, .2, .36}, {20, .8, .96}, {200, 0, 0}} {
		raw := Project(&pf, fixedCapacity{"kv": tt.capacity}, fixedLag(time.Minute), Supply{Ready: 1}, 0, window, nil)
		p := Project(&pf, fixedCapacity{"kv": tt.capacity}, fixedLag(time.Minute), Supply{Ready: 1}, 0, window, &o)
		if math.Abs(raw.Probability-tt.raw) > .02 || math.Abs(p.Probability-tt.want) > .06 {
			t.Errorf("capacity %g: probability %.3f, before learning %.3f, want %g and %g", tt.capacity, p.Probability, raw.Probability, tt.want, tt.raw)
		}
		if (p.ETA.P50 == 0) != (tt.want > .5) {
			t.Errorf("capacity %g: ETA %v at %.3f", tt.capacity, p.ETA, p.Probability)
		}
	}
}

// TestOutlookOfTheHorizon: what is learned of the horizon changes what is said of far minutes, and nothing within the window.
func TestOutlookOfTheHorizon(t *testing.T) {
	const window = 10 * time.Minute
	pf := evenly(0)
	project := func(o *Outlook) Projection {
		return Project(&pf, fixedCapacity{"kv": 40}, fixedLag(time.Minute), Supply{Ready: 1}, 0, window, o)
	}
	var o Outlook
	d := o.dimension("kv")
	d.FarRanks = [rankBins]float64{100, 100, 100} // of far windows the demand stayed low
	plain, p := project(nil), project(&o)
	if p.Resources[0].Probability[9] != plain.Resources[0].Probability[9] {
		t.Errorf("within the window %g becomes %g", plain.Resources[0].Probability[9], p.Resources[0].Probability[9])
	}
	d.FarRanks = [rankBins]float64{17: 100, 18: 100, 19: 100} // it was high
	if p := project(&o).Resources[0].Probability; p[9] != plain.Resources[0].Probability[9] || p[14] < p[9]+.1 || p[59] < .95 {
		t.Errorf("after %g within the window %g in a quarter of an hour and %g within the horizon, which were all too low", p[9], p[14], p[59])
	}
}

// TestOutlookKeepsWithinBounds: unknown minutes teach nothing, what waits is bounded, and a copy of the state is one.
func TestOutlookKeepsWithinBounds(t *testing.T) {
	var o Outlook
	for m := range 200 {
		pf := evenly(m)
		o.Issue(&pf, &Projection{}, 0, time.Hour)
	}
	if n := len(o.State().Dimensions[0].Open); n != 2*Horizon {
		t.Errorf("%d windows wait, want %d", n, 2*Horizon)
	}
	copied := o.State().Clone()
	o.Learn(minuteAt(400), func(string, int64) float64 { return math.NaN() })
	if d := o.State().Dimensions[0]; len(d.Open) != 0 || d.Ranks != [rankBins]float64{} {
		t.Errorf("learned %v from unknown minutes, %d wait", d.Ranks, len(d.Open))
	}
	if len(copied.Dimensions[0].Open) != 2*Horizon {
		t.Error("the copy changed")
	}
	pf := evenly(500)
	pf.Stale = true
	if o.Issue(&pf, &Projection{}, 0, time.Hour); len(o.State().Dimensions[0].Open) != 0 {
		t.Error("a stale forecast was taken down")
	}
	// All paths tie with what came: every rank is as likely.
	pf = ramp("kv", 7, 0)
	o.Issue(&pf, &Projection{}, 0, time.Minute)
	o.Learn(minuteAt(1), func(string, int64) float64 { return 7 })
	ranks := o.State().Dimensions[0].Ranks
	for i := range ranks {
		if math.Abs(ranks[i]-1./rankBins) > 1e-12 {
			t.Fatalf("a tie counts as %v", ranks)
		}
	}
}

func TestRankCurveInverts(t *testing.T) {
	var o Outlook
	o.dimension("kv").Ranks = [rankBins]float64{9, 4, 2, 0, 0, 1, 7}
	c := o.worth("kv").near
	for p := 0.; p <= 1; p += .01 {
		if got := c.at(c.level(p)); math.Abs(got-p) > 1e-9 {
			t.Errorf("at(level(%g)) = %g", p, got)
		}
	}
	if plain := (*Outlook)(nil).worth("kv").near; math.Abs(plain.at(.3)-.3) > 1e-12 || plain.at(1) != 1 || plain.at(0) != 0 {
		t.Errorf("without an outlook 0.3 becomes %g", plain.at(.3))
	}
}

func TestOddsLearn(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	var o odds
	if o.correct(.8) != .8 {
		t.Error("nothing was learned, and 0.8 is corrected")
	}
	stated := []float64{.1, .3, .5, .8, .9, 0, 1}
	truth := func(p float64) float64 { return logistic(.8*logit(p) - .5) }
	for range 20000 {
		p := stated[rng.IntN(len(stated))]
		o.learn(p, rng.Float64() < truth(p), .1)
	}
	for _, p := range stated[:5] {
		if got := o.correct(p); math.Abs(got-truth(p)) > .07 {
			t.Errorf("%g becomes %.3f, want %.3f", p, got, truth(p))
		}
	}
	if o.correct(0) != 0 || o.correct(1) != 1 {
		t.Error("certainty is corrected")
	}
	for range 100000 { // what never comes true is corrected within bounds
		o.learn(.9, false, 1)
	}
	if got := o.correct(.9); !(got > .3 && got < .9) {
		t.Errorf("0.9 becomes %g", got)
	}
}

// TestReliability: a projection is judged by the demand that came against the supply that it assumed, averaged over the lag
// of replicas that were on their way.
func TestReliability(t *testing.T) {
	const window = 10 * time.Minute
	var r Reliability
	project := func(minute int, stated float64, supply Supply, eta ETA) {
		p := Projection{Origin: minuteAt(minute), Supply: supply, Resources: []ResourceProjection{{Dimension: "kv", PerReplica: 100, ETA: eta}}}
		for h := range Horizon {
			p.Resources[0].Probability[h] = stated
		}
		r.Issue(&p, halfLag{}, 1, window)
	}
	never := ETA{Never, Never, Never}
	project(0, .8, Supply{Ready: 3}, ETA{3 * time.Minute, 5 * time.Minute, Never})           // 200 hold until minute 5
	project(0, .8, Supply{Ready: 9}, never)                                                  // enough
	project(0, .2, Supply{Ready: 3, Pending: []time.Time{minuteAt(0)}}, never)               // ready in time, or not
	project(6, .97, Supply{Ready: 2}, ETA{0, 0, 0})                                          // short from the start
	project(20, .5, Supply{Ready: 3}, never)                                                 // is not over
	project(0, 0, Supply{Ready: 3, Pending: []time.Time{minuteAt(-1), minuteAt(-2)}}, never) // the same lag for both
	for m := range 70 {
		r.Observe(minuteAt(m).Unix()/60, func(string) float64 {
			if m == 5 || m == 6 {
				return 250
			}
			return 150
		})
	}
	bins, eta := r.Table()
	want := map[int][3]float64{0: {1, 0, .5}, 2: {1, .2, .5}, 8: {2, .8, .5}, 10: {1, .97, 1}}
	for i, b := range bins {
		got := [3]float64{float64(b.N), b.Stated, b.Came}
		if w, ok := want[i]; ok && cmp.Diff(w, got, cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })) != "" || !ok && b.N != 0 {
			t.Errorf("%g to %g: %v, want %v", b.From, b.To, got, w)
		}
	}
	if eta[0].N != 1 || eta[0].Came != 0 || eta[1].N != 1 || eta[1].Came != 1 || eta[2].N != 0 || !math.IsNaN(eta[2].Came) {
		t.Errorf("%+v", eta)
	}
}

// halfLag is over at once for half of the replicas, and never for the others.
type halfLag struct{}

func (halfLag) Quantile(float64) time.Duration              { return time.Hour }
func (halfLag) ReadyBy(requested, now, t time.Time) float64 { return .5 }
