package forecaster

import (
	"math"
	"testing"

	"github.com/forewarm/forewarm/features"
)

// The younger a class is whose beginning was seen, and the more of its spells ended, the likelier it is over soon; of one
// that was there before us nothing is said.
func TestSpellsEnd(t *testing.T) {
	of := func(minutes ...int) (s spells) { // that something came and did not, in turns
		s.Witnessed = true
		since := 0.0
		for i, n := range minutes {
			for range n {
				s.add(i%2 == 0, since)
				if since++; i%2 == 0 {
					since = 0
				}
			}
		}
		return s
	}
	five, hour, twice := of(5), of(60), of(30, 60, 30)
	if five.Lasted != 5 || hour.Lasted != 60 || twice.Lasted != 60 || twice.Ended != 1 {
		t.Fatalf("counted %+v, %+v, %+v", five, hour, twice)
	}
	if pause := of(5, 3, 5); pause.Lasted != 13 || pause.Ended != 0 {
		t.Errorf("a pause of three minutes ended a spell: %+v", pause)
	}
	if !(five.over(22) > five.over(15) && five.over(22) > twice.over(22) && twice.over(22) > hour.over(22) && hour.over(22) > 0) {
		t.Errorf("over in 22 minutes: %.3f after five, %.3f after an hour, %.3f after two half hours; in 15: %.3f", five.over(22), hour.over(22), twice.over(22), five.over(15))
	}
	if five.Witnessed = false; five.over(22) != 0 {
		t.Errorf("of a class that was there before us it is said to be over with %.3f", five.over(22))
	}
}

// What is said of a spell is right where spells end at rates that nobody knows: of rates drawn from Jeffreys' prior as far as
// that is a distribution, those that outlasted some minutes outlast more of them as often as was said.
func TestSpellsOutlastAsSaid(t *testing.T) {
	const slow, fast = 1e-6, 10.0 // rates a minute, between which the prior is cut off
	for _, lasted := range []float64{5, 15, 60} {
		const ahead = 22.0
		var more, some float64
		const n = 200_000
		for i := range n { // the prior's density is that of a rate whose root is uniform
			root := math.Sqrt(slow) + (math.Sqrt(fast)-math.Sqrt(slow))*(float64(i)+.5)/n
			some += math.Exp(-root * root * lasted)
			more += math.Exp(-root * root * (lasted + ahead))
		}
		s := spells{Witnessed: true, Lasted: lasted}
		if got, want := s.over(ahead)*(priorOutcomes+lasted)/priorOutcomes, 1-more/some; math.Abs(got-want) > .005 {
			t.Errorf("after %v minutes: over in %v more with %.3f, by the sum %.3f", lasted, ahead, got, want)
		}
	}
}

// A class that begins after the pool may be gone in half an hour, and the forecast says so: its median is nothing at first,
// and what it may come to if it stays is in the upper quantiles. Of one that the pool began with nothing of that is said, and
// after two hours of the other neither.
func TestNewClassMayGo(t *testing.T) {
	f := New(Config{})
	old, young := features.Key{Pool: "p", Class: "old"}, features.Key{Pool: "p", Class: "young"}
	for i := range 300 {
		ws := []features.Window{window("p", old.Class, i, 100+float64(i%7))}
		if i >= 60 {
			ws = append(ws, window("p", young.Class, i, 100+float64(i%7)))
		}
		f.Observe(ws, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true, LastEvent: minuteAt(i)}})
		at := func(class string) *Quantiles {
			return &of(f.Forecast(minuteAt(i + 1))[0].Classes, class, features.DimRequests).Minute[21]
		}
		switch i + 1 {
		case 5:
			if q := at(old.Class); q[L50] < 50 {
				t.Errorf("five minutes after the pool began its class is forecast as %v", q)
			}
		case 65:
			if q := at(young.Class); q[L50] != 0 || q[L90] < 80 {
				t.Errorf("five minutes after it began the class is forecast as %v", q)
			}
		case 200:
			if q := at(young.Class); q[L50] < 50 {
				t.Errorf("two hours after it began the class is forecast as %v", q)
			}
		}
	}
}
