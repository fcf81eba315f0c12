package backtest

import (
	"math"
	"slices"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

// decided is Forewarm's own decision on another forecast of the need, so that what a forecast is worth can be told from
// what the decision is. A forecast here is a point for each minute ahead and the empirical quantiles of its own past errors
// at that lead, on the square-root scale on which Forewarm measures errors.
type decided struct {
	name   string
	point  expectation
	pool   capacity.Pool // a replica carries a need of one
	cfg    alerting.Config
	state  alerting.State
	lead   time.Duration
	known  series // need so far
	future *series
	errors [decidedAhead]forecaster.Quantiles // of the square root, by lead
}

// expectation expects the need of minute at, when the minutes before origin are known; future is the whole trace, which only a
// clairvoyant forecast may read. NaN when it has nothing to go by.
type expectation func(known, future *series, origin, at int) float64

// series is a need by the minute, with the sums before each for means.
type series struct{ need, before []float64 }

func (s *series) add(need float64) {
	if len(s.before) == 0 {
		s.before = []float64{0}
	}
	s.need = append(s.need, need)
	s.before = append(s.before, s.before[len(s.before)-1]+need)
}

// mean of the minutes from…to−1 that there are; NaN when there are none.
func (s *series) mean(from, to int) float64 {
	from, to = max(from, 0), min(to, len(s.need))
	if from >= to {
		return math.NaN()
	}
	return (s.before[to] - s.before[from]) / float64(to-from)
}

// The forecasts.
func pointLast(known, _ *series, origin, _ int) float64 { return known.mean(origin-1, origin) }

func pointRecent(known, _ *series, origin, _ int) float64 { return known.mean(origin-15, origin) }

func pointYesterday(known, _ *series, origin, at int) float64 {
	if at < day {
		return pointRecent(known, nil, origin, at)
	}
	return known.mean(at-day-levelWidth/2, min(at-day+levelWidth/2+1, origin))
}

func pointLevel(_, future *series, _, at int) float64 {
	return future.mean(at-levelWidth/2, at+levelWidth/2+1)
}

func pointPerfect(_, future *series, _, at int) float64 { return future.mean(at, at+1) }

// newDecided makes the policy's constructor; its knob is the quantile that the decision provides for.
func newDecided(name string, point expectation) func(Scene, Setting) Policy {
	return func(s Scene, set Setting) Policy {
		d := &decided{name: name, point: point, cfg: alerting.DefaultConfig(), lead: s.Lead, future: &series{}}
		d.cfg.Mode, d.cfg.Quantile = alerting.Active, set[0]
		for _, need := range s.Future.Need {
			d.future.add(need)
		}
		var err error
		d.pool, err = capacity.New(capacity.Config{Name: name, MaxRequestsPerS: 1, Replicas: capacity.Replicas{Min: s.Future.Min, Max: s.Future.Max, Initial: s.Future.Initial}}, nil)
		if err != nil {
			panic("backtest: a pool of one request a second: " + err.Error())
		}
		return d
	}
}

func (d *decided) Name() string { return d.name }

func (d *decided) Desired(o Observation) int {
	d.known.add(max(o.Need, 0)) // NaN, which is not known, is idle to the simulated pool too
	origin := len(d.known.need)
	if origin%errorEvery == 0 {
		d.learn(origin)
	}
	f := forecaster.Forecast{Dimension: features.DimRequests, Confidence: forecaster.Cold}
	f.Now.Mean = d.known.need[origin-1]
	if origin > errorEvery+decidedAhead {
		f.Confidence = forecaster.Warm
	}
	for h := range d.errors {
		root := math.Sqrt(d.point(&d.known, d.future, origin, origin+h))
		if math.IsNaN(root) { // beyond the trace
			root = math.Sqrt(f.Now.Mean)
		}
		for i, e := range d.errors[h] {
			z := max(root+e, 0)
			f.Minute[h][i] = z * z
		}
	}
	in := alerting.Input{
		Projection: forecaster.Projection{Lead: d.lead, Confidence: f.Confidence},
		Forecast:   &forecaster.PoolForecast{Origin: o.At, Total: []forecaster.Forecast{f}},
		Pool:       d.pool,
	}
	in.Minute.Covered = true
	in.Minute.State = features.PoolState{Observed: true, At: o.At, ReportedAt: o.At, Ready: o.Ready, Pending: o.Pending, WaitingPerReady: o.Waiting / max(1, float64(o.Ready))}
	var decision alerting.Decision
	decision, d.state = alerting.Decide(o.At, in, d.state, d.cfg)
	return decision.Desired
}

// decidedAhead is how many minutes are forecast: no decision on the simulated pools looks further.
const decidedAhead = 30

// How errors are learned: anew every errorEvery minutes, of every second origin of the last two days.
const (
	errorEvery = 60
	errorSpan  = 2 * day
	errorStep  = 2
)

// learn looks up the quantiles of the errors at each lead. O(decidedAhead · errorSpan · log errorSpan).
func (d *decided) learn(origin int) {
	var errors []float64
	for h := range d.errors {
		errors = errors[:0]
		for from := origin - 1 - h; from > max(0, origin-errorSpan); from -= errorStep {
			if e := math.Sqrt(d.known.need[from+h]) - math.Sqrt(d.point(&d.known, d.future, from, from+h)); !math.IsNaN(e) {
				errors = append(errors, e)
			}
		}
		slices.Sort(errors)
		for i, tau := range forecaster.Levels {
			if len(errors) == 0 {
				break
			}
			at := tau * float64(len(errors)-1)
			below := int(at)
			above := min(below+1, len(errors)-1)
			d.errors[h][i] = errors[below] + (at-float64(below))*(errors[above]-errors[below])
		}
	}
}
