package forecaster

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster/model"
)

// Basis is what a forecast was made of, as far as its quantiles do not show it: kept with each forecast for [Explain].
// Values are in the dimension's unit, of the minute 15 minutes ahead, and without scheduled events.
type Basis struct {
	Points  [numExperts]float32 // by place in the catalog; negative for those that sleep
	Level   float64             // mean of the last half hour or so
	Recent  float64             // mean of the last ten minutes or so
	Shift   Quantiles           // what calibration has added
	Covered [2]Covered          // of minutes 15 ahead, and of the window maximum
	Events  []EventEffect       // those that are felt within the horizon or were just now
	Now     shapeSums           // load of the last ten minutes, and of ten an hour before
	Then    shapeSums
}

// Covered counts outcomes at or below each quantile that was published, with a memory of a week of minutes.
type Covered struct {
	N     float32            `cbor:"1,keyasint"`
	Below [NumLevels]float32 `cbor:"2,keyasint"`
}

const coveredMemory = 7 * 1440

func (c *Covered) add(y float64, published *Quantiles) {
	c.N = min(c.N+1, coveredMemory)
	for i := range published {
		hit := float32(0)
		if y <= published[i] {
			hit = 1
		}
		c.Below[i] += (hit - c.Below[i]) / c.N
	}
}

// coverage keeps a Covered of the two targets that are explained.
func (s *series) coverage(k int, y float64, published *Quantiles) {
	switch k {
	case midLead:
		s.covered[0].add(y, published)
	case windowMax:
		s.covered[1].add(y, published)
	}
}

// basis notes what the distribution q of the middle lead was made of.
func (s *series) basis(p *points, q *Quantiles) Basis {
	b := asleep(s.history)
	for e := range catalog {
		if !isNaN(p.z[e]) {
			b.Points[e] = p.z[e] * p.z[e]
		}
	}
	b.Covered = s.covered
	for i, y := range q {
		b.Shift[i] = y - unroot(math.Sqrt(y)-p.spread.mixed()*s.mix[midLead].Shift[i])
	}
	return b
}

// asleep is the basis of a forecast that no expert of the catalog has a part in.
func asleep(h *model.History) (b Basis) {
	b.Level, b.Recent = h.Level(model.Level30m), h.Level(model.Level10m)
	for e := range b.Points {
		b.Points[e] = -1
	}
	return b
}

// EventEffect is what one event of the calendar does to a forecast.
type EventEffect struct {
	Name    string  `json:"name"`
	Stated  float64 `json:"stated_factor"`
	Learned float64 `json:"learned_factor"`
	Low     float64 `json:"low_factor"` // between Low and High with a probability of 90 %
	High    float64 `json:"high_factor"`
	Now     float64 `json:"strength_now"` // 0 to 1
	Ahead   float64 `json:"strength_ahead"`
}

// changes compares the load of the last ten minutes with that of an hour before: factors, and hit ratios from 0 to 1.
func (b *Basis) changes() map[string]*float64 {
	now, then := &b.Now, &b.Then
	each := func(sum, requests float32) float64 {
		if min(now.Minutes, then.Minutes) < leastMinutes {
			return math.NaN()
		}
		return ratio(float64(sum), float64(requests))
	}
	return map[string]*float64{
		"rate_factor":          known(each(now.Requests, then.Requests)),
		"prompt_length_factor": known(ratio(each(now.Prompt, now.Requests), each(then.Prompt, then.Requests))),
		"output_length_factor": known(ratio(each(now.Output, now.Requests), each(then.Output, then.Requests))),
		"cache_hit_now":        known(each(now.Cached, now.PromptOfCached)),
		"cache_hit_before":     known(each(then.Cached, then.PromptOfCached)),
	}
}

func (s *shapeSums) add(o *shapeSums) {
	s.Minutes = max(s.Minutes, o.Minutes)
	s.Requests += o.Requests
	s.Retries += o.Retries
	s.Prompt += o.Prompt
	s.Cached += o.Cached
	s.PromptOfCached += o.PromptOfCached
	s.Output += o.Output
}

// Explanation says what a forecast rests on. Values are in Unit, of the minute LeadMinutes ahead; what is not known is
// null. Bounded by the number of experts, levels and events.
type Explanation struct {
	Pool        string              `json:"pool"`
	Class       string              `json:"class"`
	Dimension   string              `json:"dimension"`
	Origin      time.Time           `json:"origin"`
	LeadMinutes int                 `json:"lead_minutes"`
	Confidence  Confidence          `json:"confidence"`
	Known       int                 `json:"known_minutes"`
	Fallback    bool                `json:"fallback"` // the last value has the larger part in the answer
	Now         *float64            `json:"now"`
	Quantiles   []LevelValue        `json:"quantiles"`
	WindowMax   []LevelValue        `json:"window_max"`
	Parts       Parts               `json:"parts"`
	Experts     []ExpertView        `json:"experts"` // those awake, the heaviest first
	Events      []EventEffect       `json:"events"`
	Coverage    []CoverageView      `json:"coverage"`
	Changes     map[string]*float64 `json:"changes_in_an_hour"`
}

// LevelValue is a quantile.
type LevelValue struct {
	Level float64  `json:"level"`
	Value *float64 `json:"value"`
}

// Parts are inputs of the forecast: its level, and what the change of yesterday and of last week after the same time of
// the clock would add to it. Calibration is what past coverage has added to the median and to the 95 % quantile.
type Parts struct {
	Level         *float64 `json:"level"`
	Day           *float64 `json:"season_day"`
	Week          *float64 `json:"season_week"`
	EventFactor   float64  `json:"event_factor"`
	Calibration50 *float64 `json:"calibration_median"`
	Calibration95 *float64 `json:"calibration_95"`
}

// ExpertView is what one expert alone expects.
type ExpertView struct {
	Expert   string   `json:"expert"`
	Share    float64  `json:"share"`
	Forecast *float64 `json:"forecast"`
}

// CoverageView is how often outcomes were at or below what was published.
type CoverageView struct {
	Target   string       `json:"target"` // 15m, or max15_30m
	Outcomes int          `json:"outcomes"`
	Below    []LevelValue `json:"below"`
}

// Explain says what a forecast rests on.
func Explain(f *Forecast) Explanation {
	b := &f.Basis
	x := Explanation{
		Pool: f.Pool, Class: f.Class, Dimension: f.Dimension, Origin: f.Origin.UTC(), LeadMinutes: targets[midLead].to, Confidence: f.Confidence,
		Known: f.Known, Fallback: f.Fallback, Now: known(f.Now.Mean), Quantiles: levelValues(&f.Minute[targets[midLead].to-1]), WindowMax: levelValues(&f.WindowMax),
		Experts: []ExpertView{}, Events: append([]EventEffect{}, b.Events...), Coverage: []CoverageView{}, Changes: b.changes(),
	}
	for _, w := range f.Weights {
		x.Experts = append(x.Experts, ExpertView{w.Expert, w.Share, known(b.point(w.Expert))})
	}
	x.Parts = Parts{
		Level: known(b.Level), EventFactor: 1, Calibration50: known(b.Shift[L50]), Calibration95: known(b.Shift[L95]),
		Day: known(b.point("drift_day") - b.Recent), Week: known(b.point("drift_week") - b.Recent),
	}
	for _, e := range b.Events {
		x.Parts.EventFactor *= math.Pow(e.Learned, e.Ahead)
	}
	for i, name := range [...]string{"15m", "max15_30m"} {
		if c := &b.Covered[i]; c.N > 0 {
			below := Quantiles{}
			for l, share := range c.Below {
				below[l] = float64(share)
			}
			x.Coverage = append(x.Coverage, CoverageView{name, int(c.N), levelValues(&below)})
		}
	}
	return x
}

// point is what an expert expects, NaN when it sleeps.
func (b *Basis) point(name string) float64 {
	for e := range catalog {
		if catalog[e].name == name && b.Points[e] >= 0 {
			return float64(b.Points[e])
		}
	}
	return math.NaN()
}

func levelValues(q *Quantiles) []LevelValue {
	out := make([]LevelValue, NumLevels)
	for i, y := range q {
		out[i] = LevelValue{Levels[i], known(y)}
	}
	return out
}

// known is nil for what is not known.
func known(y float64) *float64 {
	if math.IsNaN(y) || math.IsInf(y, 0) {
		return nil
	}
	return &y
}
