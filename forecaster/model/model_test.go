package model

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const start = int64(28_000_000) // a minute in 2023

func feed(h *History, from int64, ys []float64) {
	for i, y := range ys {
		h.Push(from+int64(i), y)
	}
}

func repeat(n int, f func(i int) float64) []float64 {
	ys := make([]float64, n)
	for i := range ys {
		ys[i] = f(i)
	}
	return ys
}

// TestRestore: a restored history has the same state as the original after further minutes.
func TestRestore(t *testing.T) {
	nan := math.NaN()
	for shape, ys := range map[string][]float64{
		"empty":   nil,
		"one":     {5},
		"unknown": repeat(200, func(int) float64 { return nan }),
		"gappy":   repeat(9*1440, func(i int) float64 { return [3]float64{3, nan, 9}[i%3] }),
	} {
		h := NewHistory()
		feed(h, start, ys)
		g := restored(t, h)
		more := repeat(100, func(i int) float64 { return float64(i % 13) })
		feed(h, start+int64(len(ys)), more)
		feed(g, start+int64(len(ys)), more)
		if diff := cmp.Diff(h.State(), g.State(), cmpopts.EquateNaNs()); diff != "" {
			t.Errorf("%s (-unbroken +restored):\n%s", shape, diff)
		}
	}
}

// restored stores a history and restores it.
func restored(t *testing.T, h *History) *History {
	t.Helper()
	g := NewHistory()
	to := g.State()
	for i, part := range h.State() {
		b, err := binary.Append(nil, binary.LittleEndian, part)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := binary.Decode(b, binary.LittleEndian, to[i]); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

// TestMoves compares the moves of a history, which are those of settled minutes, with a direct computation.
func TestMoves(t *testing.T) {
	h := NewHistory()
	ys := repeat(200, func(i int) float64 { return float64((i*7919)%101) + float64(i) })
	for i, y := range ys {
		h.Push(start+int64(i), y)
		h.Settle(h.Newest)
	}
	mean := func(from, to int) float64 {
		sum := 0.0
		for _, y := range ys[from : to+1] {
			sum += y
		}
		return math.Sqrt(sum / float64(to-from+1))
	}
	square, seen := 0.0, 0.0
	for end := 30; end < len(ys); end++ {
		seen++
		move := mean(end-15, end) - mean(max(0, end-44), end-30)
		square += max(1./moveMinutes[0], 1/seen) * (move*move - square)
	}
	if h.Moves() != seen || math.Abs(h.Move(0).Size-math.Sqrt(square)) > 1e-3 {
		t.Errorf("%v moves of size %v, want %v of %v", h.Moves(), h.Move(0).Size, seen, math.Sqrt(square))
	}
	if again := restored(t, h); again.Move(2) != h.Move(2) || again.Moves() != h.Moves() {
		t.Error("a restored history has other moves")
	}
}

// TestGaps: skipped minutes are unknown, also in gaps of days. They do not have former values of the ring.
func TestGaps(t *testing.T) {
	for _, gap := range []int64{5, 2000, 3 * 1440, 20 * 1440} {
		h := NewHistory()
		feed(h, start, repeat(9*1440, func(int) float64 { return 4 }))
		was := h.Newest
		h.Push(was+gap, 9)
		for m := was + gap - 1; m > was && m > was+gap-ringMinutes; m-- {
			if !math.IsNaN(h.At(m)) {
				t.Fatalf("gap of %d: minute %d is %v", gap, m-was, h.At(m))
			}
		}
		if gap > 1440 {
			if y := h.Around(h.Newest - 1440); !math.IsNaN(y) {
				t.Errorf("gap of %d: a half hour in the gap is %v", gap, y)
			}
		}
		if h.Known != 9*1440+1 {
			t.Errorf("gap of %d: %d known minutes", gap, h.Known)
		}
	}
}

func TestAmend(t *testing.T) {
	h := NewHistory()
	feed(h, start, []float64{1, math.NaN(), 3})
	h.Amend(start+1, 2)
	h.Amend(start, 5)
	h.Amend(start+3, 100) // not pushed yet
	h.Amend(start-1, 100) // never pushed
	got := []float64{h.At(start), h.At(start + 1), h.At(start + 2), h.Mean(start, start+2), h.Max(start, start+2)}
	if diff := cmp.Diff([]float64{5, 2, 3, 10.0 / 3, 5}, got); diff != "" {
		t.Error(diff)
	}
}

// After amendments levels are those of the amended values.
func TestLevelsOfAmendedMinutes(t *testing.T) {
	direct, amended := NewHistory(), NewHistory()
	for m := range int64(3000) {
		y := 100 + float64(m%17)
		direct.Push(m, y)
		if m < 2990 {
			amended.Push(m, y)
		} else {
			amended.Push(m, y/2)
		}
	}
	for m := int64(2990); m < 3000; m++ {
		amended.Amend(m, 100+float64(m%17))
	}
	for i := range levelMinutes {
		if a, b := direct.Level(i), amended.Level(i); math.Abs(a-b) > 1e-3 {
			t.Errorf("level over %v minutes is %v, want %v", levelMinutes[i], b, a)
		}
	}
}

// Minutes that become known a minute late change the levels like those that are known at once.
func TestLevelsOfLateMinutes(t *testing.T) {
	direct, late := NewHistory(), NewHistory()
	for m := range int64(300) {
		y := 100 + 20*math.Sin(float64(m)/30) + float64(m%7)
		direct.Push(m, y)
		late.Push(m, math.NaN())
		late.Amend(m-1, direct.At(m-1))
	}
	late.Amend(299, direct.At(299))
	if late.Known != direct.Known {
		t.Errorf("%d known minutes, want %d", late.Known, direct.Known)
	}
	for i := range levelMinutes {
		if a, b := direct.Level(i), late.Level(i); math.Abs(a-b) > 0.01*a {
			t.Errorf("level over %v minutes is %v, want %v", levelMinutes[i], b, a)
		}
	}
}
