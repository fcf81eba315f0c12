package forecaster

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/fxamacker/cbor/v2"
)

// tokens is a minute in which a class asked for n prompt tokens.
func tokens(class string, i int, n float64) features.Window {
	return features.Window{
		Key: features.Key{Pool: "p", Class: class}, Start: minuteAt(i), Covered: true, Reports: features.ReportsPrompt,
		Records: 1, PromptKnown: 1, PromptTokens: n,
	}
}

// restoredOf sends a forecaster through its bytes.
func restoredOf(t *testing.T, f *Forecaster) *Forecaster {
	t.Helper()
	g, err := Restore(f.cfg, cbor.NewDecoder(bytes.NewReader(bytesOf(t, f))).Decode)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func bytesOf(t *testing.T, f *Forecaster) []byte {
	t.Helper()
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Parts(mode.NewEncoder(&b).Encode); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestRestIsConsistent: whatever classes come, go, grow and are amended, few have series of their own, and these and
// the rest add up to the total in every minute that can still change. A restart in between changes nothing.
func TestRestIsConsistent(t *testing.T) {
	const classes, limit, few, settle, minutes = 40, 5, 9, 6, 200
	rng := rand.New(rand.NewPCG(1, 2))
	f := New(Config{Settle: settle * time.Minute, MaxClasses: limit, MaxLight: few})
	counts := [minutes][classes]float64{}
	swaps, before := 0, ""
	for i := range minutes {
		windows := []features.Window{}
		for m := max(0, i-settle); m <= i; m++ {
			for c := range classes {
				if i > 150 && c%7 == 0 {
					continue // fell silent
				}
				first := m == i
				if first || rng.IntN(4) == 0 {
					counts[m][c] += math.Round(rng.ExpFloat64() * float64(1+(c*7+i/40*13)%classes) * 600)
					windows = append(windows, tokens(fmt.Sprintf("c%02d", c), m, counts[m][c]))
				}
			}
		}
		f.Observe(windows, []features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true, LastEvent: minuteAt(i)}})
		if i == 100 {
			f = restoredOf(t, f)
		}
		p := f.pools[0]
		if len(p.classes) > limit+few+1 || p.full > limit || f.light > few {
			t.Fatalf("%d classes have series, want %d, %d light ones and the rest", len(p.classes), limit, few)
		}
		names := ""
		for _, c := range p.classes {
			names += fmt.Sprint(c.key.Class, c.light != nil, " ")
		}
		if names != before {
			swaps, before = swaps+1, names
		}
		d := 1 // prefill
		for m := max(0, i-settle+1); m <= i; m++ {
			sum, want := 0.0, 0.0
			for _, c := range p.classes {
				sum += zeroIfNaN(c.follower(d).past().At(startMinute + int64(m)))
			}
			for c := range classes {
				want += counts[m][c] / 60
			}
			total := p.total[d].history.At(startMinute + int64(m))
			if math.Abs(sum-want) > 1e-3*want || math.Abs(total-want) > 1e-3*want {
				t.Fatalf("minute %d after %d: classes and rest add up to %v, the total is %v, want %v", m, i, sum, total, want)
			}
		}
	}
	if swaps < 2 || swaps > 12 { // the first set is one
		t.Errorf("the set of classes changed %d times in %d minutes of traffic that moves slowly", swaps, minutes)
	}
}

// TestHeaviestHaveSeries: after a while those who weigh most are followed one by one, and a class that is only a little
// heavier does not take the place of one that has learned.
func TestHeaviestHaveSeries(t *testing.T) {
	f := New(Config{MaxClasses: 2})
	weights := map[string]float64{"a": 100, "b": 1000, "c": 2100, "d": 1500}
	for i := range 60 {
		var windows []features.Window
		for _, name := range []string{"a", "b", "c", "d"} {
			windows = append(windows, tokens(name, i, weights[name]))
		}
		f.Observe(windows, nil)
	}
	got := ""
	for _, c := range f.pools[0].classes {
		got += c.key.Class + " "
	}
	if got != "_other b c " { // d outweighs b, but not clearly
		t.Errorf("series of %s", got)
	}
	again := restoredOf(t, f)
	if !bytes.Equal(bytesOf(t, f), bytesOf(t, again)) {
		t.Error("a state changes by being restored")
	}
}
