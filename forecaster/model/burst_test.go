package model

import (
	"math"
	"math/rand/v2"
	"testing"
)

// bursty is a series of ten a minute, give or take, in which every period minutes lasting of them bring five times that.
func bursty(n, period, lasting int) []float64 {
	r := rand.New(rand.NewPCG(3, 9))
	return repeat(n, func(i int) float64 {
		y := 10 * math.Exp(.15*r.NormFloat64())
		if i > 0 && i%period < lasting && i >= period {
			y *= 5
		}
		return y
	})
}

// A burst is seen within minutes of its begin and of its end, and noise is none.
func TestBurstBeginsAndEnds(t *testing.T) {
	b, h := new(Burst), NewHistory()
	feed(b, h, start, bursty(10_000, 20_000, 0))
	if minutes, _ := b.Since(); minutes > 0 || !math.IsNaN(b.Forecast(h, 15)) {
		t.Fatalf("a burst of %v minutes in noise", minutes)
	}
	feed(b, h, start+10_000, repeat(6, func(int) float64 { return 50 }))
	minutes, excess := b.Since()
	if minutes == 0 || math.Abs(excess-40) > 20 {
		t.Errorf("after six minutes of five times as much: a burst of %v minutes that brings %v", minutes, excess)
	}
	if y := b.Forecast(h, 1); y < 25 || y > 60 {
		t.Errorf("the next minute: %v", y)
	}
	feed(b, h, start+10_006, repeat(12, func(int) float64 { return 10 }))
	if minutes, _ := b.Since(); minutes > 0 {
		t.Errorf("twelve minutes after its end a burst is said to have lasted %v", minutes)
	}
}

// How long bursts last is learned: of a series whose bursts take ten minutes little is left a quarter of an hour later, of
// one whose bursts take two hours most.
func TestBurstLearnsHowLongBurstsLast(t *testing.T) {
	share := func(lasting int) float64 {
		b, h := new(Burst), NewHistory()
		const period, n = 400, 30
		feed(b, h, start, bursty(n*period, period, lasting))
		feed(b, h, start+n*period, repeat(8, func(int) float64 { return 50 }))
		return (b.Forecast(h, 15) - 10) / (b.Forecast(h, 1) - 10)
	}
	brief, long := share(10), share(120)
	if !(brief < .5) || !(long > .75) {
		t.Errorf("a quarter of an hour later %.2f of a brief burst and %.2f of a long one are expected", brief, long)
	}
}

// What has lasted for hours is the level.
func TestBurstBecomesTheLevel(t *testing.T) {
	b, h := new(Burst), NewHistory()
	feed(b, h, start, bursty(2000, 20_000, 0))
	feed(b, h, start+2000, repeat(burstMost+60, func(i int) float64 { return 50 + float64(i%3) }))
	if minutes, _ := b.Since(); minutes > 0 {
		t.Errorf("after %d minutes on a new level a burst of %v minutes goes on", burstMost+60, minutes)
	}
}
