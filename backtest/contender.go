package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// contender is one setting of one policy with the pool that it scales.
type contender struct {
	spec       *PolicySpec
	set        Setting
	pool       simulated
	policy     Policy                 // nil for Forewarm
	prompter   Policy                 // the same policy for the prefill replicas of a disaggregated pool
	other      *variant               // Forewarm at a setting that is not the pipeline's; nil for the pipeline itself and for rivals
	calibrator *forecaster.Calibrator // of other

	tuning Account // when the scored part begins
	lead   leadTimes
	track  *track // nil when nothing is to be drawn
}

// step serves a minute and lets a rival decide.
func (c *contender) step(load Load) (o Observation, desired int) {
	c.pool.Step(load)
	o = c.pool.Observe()
	if c.policy != nil {
		desired = c.policy.Desired(o)
		c.pool.SetDesired(desired)
	}
	if p, ok := c.pool.(*rolePools); ok && c.prompter != nil {
		p.prompts.SetDesired(c.prompter.Desired(p.prompts.Observe()))
	}
	c.lead.minute(o)
	c.track.minute(o)
	return o, desired
}

// decide is Forewarm's turn, after the pipeline's tick, of which calibrator is.
func (c *contender) decide(t time.Time, sequence uint64, f *forecaster.PoolForecast, calibrator *forecaster.Calibrator, demand *Demand) {
	if c.other == nil {
		return
	}
	if c.calibrator == nil {
		c.calibrator = calibrator.Beside()
	}
	c.calibrator.Learn(t, demand.before(t))
	c.other.decide(t, sequence, f, c.calibrator, c.pool)
}

func (c *contender) account() Account {
	a := c.pool.Account()
	a.Leads = c.lead.by
	a.InTime = c.lead.inTime
	return a
}

func (c *contender) outcome() outcome {
	return outcome{set: c.set, tuning: c.tuning, scored: c.account().Since(c.tuning)}
}

// isDefault says whether this is the setting that the documentation of the policy's original has.
func (c *contender) isDefault() bool { return slices.Equal(c.set, c.spec.defaults()) }

// longestLead bounds the lead times that are told apart, minutes.
const longestLead = 60

// leadTimes measures how long before demand rose the replicas for it had been asked for. Demand rises in a minute that
// needs more whole replicas than any of the half hour before it; the lead of that rise is for how many minutes as many
// had been ready or on their way by then. It is in time when they are ready.
type leadTimes struct {
	by     [longestLead + 1]int32 // rises by lead
	inTime int32                  // rises

	asked  [longestLead]int // ready and pending replicas at the end of the last minutes, a ring
	needed [riseWindow]int  // whole replicas, a ring
	ready  int              // at the end of the last minute
	n      int
}

const riseWindow = 30 // minutes

// minute takes in what is seen at the end of a minute. O(longestLead) at a rise.
func (l *leadTimes) minute(o Observation) {
	need := 0
	if o.Need > 0 {
		need = int(math.Ceil(o.Need - 1e-9))
	}
	if l.n >= riseWindow && need > slices.Max(l.needed[:]) {
		lead := 0
		for lead < min(l.n, longestLead) && l.asked[(l.n-1-lead)%longestLead] >= need {
			lead++
		}
		l.by[lead]++
		if l.ready >= need {
			l.inTime++
		}
	}
	l.needed[l.n%riseWindow] = need
	l.asked[l.n%longestLead] = o.Ready + o.Pending
	l.ready = o.Ready
	l.n++
}

// track is a pool over the scored time, in bins of whole minutes, for drawing.
type track struct {
	from  time.Time
	width time.Duration
	bins  []trackBin
}

type trackBin struct {
	need         float64 // largest
	ready, asked float64 // mean replicas; asked includes those on their way
	minutes      float64
}

// trackBins is how many bins a track has at most.
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
