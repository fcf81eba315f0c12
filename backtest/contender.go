package backtest

import (
	"slices"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// contender is one setting of one policy with its pool.
type contender struct {
	spec       *PolicySpec
	set        Setting
	pool       *FluidPool
	policy     Policy                 // nil for Forewarm
	prompter   Policy                 // the policy for the prefill replicas of a disaggregated pool
	other      *variant               // Forewarm with another setting than the pipeline's; otherwise nil
	calibrator *forecaster.Calibrator // of other

	tuning Account // at the start of the scored part
	track  *track  // nil without a drawing
}

// step serves a minute and lets a rival decide.
func (c *contender) step(load Load) (o Observation, desired int) {
	c.pool.Step(load)
	o = c.pool.Observe()
	if c.policy != nil {
		desired = c.policy.Desired(o)
		c.pool.SetDesired(desired)
	}
	if c.prompter != nil {
		c.pool.prompts.SetDesired(c.prompter.Desired(c.pool.prompts.Observe()))
	}
	c.track.minute(o)
	return o, desired
}

// decide makes Forewarm's decision after the pipeline's tick; calibrator is the pipeline's.
func (c *contender) decide(t time.Time, sequence uint64, f *forecaster.PoolForecast, calibrator *forecaster.Calibrator, demand *Demand) {
	if c.other == nil {
		return
	}
	if c.calibrator == nil {
		c.calibrator = calibrator.WithSharedRanks()
	}
	c.calibrator.Learn(t, demand.before(t))
	c.other.decide(t, sequence, f, c.calibrator, c.pool)
}

func (c *contender) outcome() outcome {
	return outcome{set: c.set, tuning: c.tuning, scored: c.pool.Account().Since(c.tuning)}
}

// isDefault reports whether this is the default setting in the documentation of the original.
func (c *contender) isDefault() bool { return slices.Equal(c.set, c.spec.defaults()) }

// track is a pool's history in the scored part, in bins of whole minutes, for drawing.
type track struct {
	from  time.Time
	width time.Duration
	bins  []trackBin
}

type trackBin struct {
	need         float64 // largest
	ready, asked float64 // mean replicas; asked includes those that warm up
	minutes      float64
}

// trackBins bounds the bins of a track.
const trackBins = 600

func newTrack(from, to time.Time) *track {
	minutes := int(to.Sub(from) / time.Minute)
	return &track{from: from, width: time.Duration(max(1, (minutes+trackBins-1)/trackBins)) * time.Minute}
}

func (t *track) minute(o Observation) {
	if t == nil || !o.At.After(t.from) {
		return
	}
	i := int(o.At.Add(-time.Minute).Sub(t.from) / t.width)
	for len(t.bins) <= i {
		t.bins = append(t.bins, trackBin{})
	}
	b := &t.bins[i]
	b.need = max(b.need, o.Need)
	b.minutes++
	b.ready += (float64(o.Ready) - b.ready) / b.minutes
	b.asked += (float64(o.Ready+o.Pending) - b.asked) / b.minutes
}
