package model

import (
	"math"
	"math/rand/v2"
	"testing"
)

// talk simulates sessions for so many minutes: each takes a turn of 100 tokens to prefill and 10 of output with a chance
// that falls with its age, and ends in its twentieth minute of silence; n(m) begin in minute m. It returns the number of
// turns by minute.
func talk(s *Sessions, from, minutes int64, n func(m int64) int, ages *[20]int) (turns []float64) {
	r := rand.New(rand.NewPCG(7, uint64(from)))
	chance := func(age int) float64 { return .6 / float64(1+2*age) }
	group := func(age int) int { return [...]int{0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5}[age] }
	for m := from; m < from+minutes; m++ {
		var x SessionMinute
		var next [20]int
		for age, alive := range ages {
			for range alive {
				g := group(age)
				switch {
				case r.Float64() < chance(age):
					x.Acts[g].Woke++
					x.Acts[g].Turns++
					x.Acts[g].Prefill += 100
					x.Acts[g].Output += 10
					next[0]++
				case age+1 == len(ages):
					x.Ended[g]++
				default:
					next[age+1]++
				}
			}
		}
		begun := n(m)
		x.Begun = SessionActs{Woke: float64(begun), Turns: float64(begun), Prefill: 1000 * float64(begun), Output: 10 * float64(begun)}
		next[0] += begun
		*ages = next
		all := x.Begun.Turns
		for g := range x.Acts {
			all += x.Acts[g].Turns
		}
		for age, alive := range ages {
			x.Alive[group(age)] += float64(alive)
			x.Context += 5000 * float64(alive)
		}
		x.Demand = [SessionDimensions]float64{all / 60, (100*(all-x.Begun.Turns) + x.Begun.Prefill) / 60, 10 * all / 60, 7 * all}
		s.Observe(m, &x)
		turns = append(turns, all)
	}
	return turns
}

func sum(x []float64) (s float64) {
	for _, y := range x {
		s += y
	}
	return s
}

// After a rush of new sessions the class asks for more for as long as they go on, and for less when they end. The
// forecast made right after the rush has the shape of what then comes.
func TestSessionsCarryARush(t *testing.T) {
	var s Sessions
	var ages [20]int
	usual := talk(&s, 0, 5000, func(int64) int { return 2 }, &ages)
	quiet, ok := s.Ahead()
	if mean := sum(usual[4000:]) / 1000 / 60; !ok || math.Abs(quiet[SessionRequests][29]/mean-1) > .1 {
		t.Fatalf("in a steady state %v requests a second are expected, %v is usual", quiet[SessionRequests][29], mean)
	}
	rush := s // only what is begun differs, not what was learned
	talk(&rush, 5000, 1, func(int64) int { return 200 }, &ages)
	rush.Begun = s.Begun // that many begin only once
	ahead, _ := rush.Ahead()
	came := talk(&rush, 5001, SessionLeads, func(int64) int { return 2 }, &ages)
	for _, span := range [][2]int{{0, 2}, {4, 10}, {14, 30}} {
		want := sum(came[span[0]:span[1]]) / 60
		got := sum(ahead[SessionRequests][span[0]:span[1]])
		if math.Abs(got/want-1) > .2 {
			t.Errorf("minutes %d to %d: %.2f requests are expected, %.2f came", span[0]+1, span[1], got, want)
		}
		if plain := sum(quiet[SessionRequests][span[0]:span[1]]); got < 1.2*plain {
			t.Errorf("minutes %d to %d: %.2f requests are expected after the rush, %.2f without it", span[0]+1, span[1], got, plain)
		}
	}
}

// Every dimension follows from turns and what each takes; KV follows the context that sessions hold at once.
func TestSessionsDimensions(t *testing.T) {
	var s Sessions
	var ages [20]int
	talk(&s, 0, 5000, func(int64) int { return 2 }, &ages)
	ahead, _ := s.Ahead()
	requests := ahead[SessionRequests][19]
	for d, want := range map[int]float64{
		SessionDecode:  10 * requests,
		SessionPrefill: 100*requests + 900*s.Begun.Turns/60,
		SessionKV:      7 * 60 * requests,
	} {
		if got := ahead[d][19]; math.Abs(got/want-1) > .1 {
			t.Errorf("dimension %d: %v, want %v", d, got, want)
		}
	}
	s.Context *= 2
	if doubled, _ := s.Ahead(); doubled[SessionKV][19] < 1.5*ahead[SessionKV][19] || doubled[SessionRequests] != ahead[SessionRequests] {
		t.Errorf("with contexts twice as long %v tokens are held, %v before", doubled[SessionKV][19], ahead[SessionKV][19])
	}
}

func TestSessionsSayNothingOutOfNothing(t *testing.T) {
	var s Sessions
	if _, ok := s.Ahead(); ok {
		t.Error("a forecast without a minute")
	}
	nan := math.NaN()
	for m := range int64(3000) {
		s.Observe(m, &SessionMinute{Demand: [SessionDimensions]float64{1, nan, 1, nan}})
	}
	if _, ok := s.Ahead(); ok {
		t.Error("a forecast without sessions")
	}
	var ages [20]int
	talk(&s, 3000, 1000, func(int64) int { return 2 }, &ages)
	before := s.Exposed
	s.Observe(9000, &SessionMinute{Alive: [SessionAges]float64{5}, Demand: [SessionDimensions]float64{1, 1, 1, 1}})
	if s.Exposed != before {
		t.Error("minutes that were left out count as silence of the sessions before them")
	}
	ahead, ok := s.Ahead()
	for d := range ahead {
		for h, y := range ahead[d] {
			if !ok || !(y >= 0) || math.IsInf(y, 0) {
				t.Fatalf("dimension %d at +%d: %v", d, h+1, y)
			}
		}
	}
}

func TestGivenSpeaksOfOneMinute(t *testing.T) {
	g, h := new(Given), NewHistory()
	at := [SessionLeads]float64{14: 3}
	g.Tell(start+1, &at)
	feed(g, h, start, []float64{1})
	if y := g.Forecast(h, 15); !math.IsNaN(y) {
		t.Errorf("%v a minute before it was told", y)
	}
	feed(g, h, start+1, []float64{1})
	if y := g.Forecast(h, 15); y != 3 {
		t.Errorf("%v, was told 3", y)
	}
	if y := g.Forecast(h, SessionLeads+1); !math.IsNaN(y) {
		t.Errorf("%v beyond what was told", y)
	}
}
