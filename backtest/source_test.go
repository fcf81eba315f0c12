package backtest

import (
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
	"github.com/google/go-cmp/cmp"
)

// listed is a trace in memory.
type listed []Item

func (l *listed) Next(it *Item) error {
	if len(*l) == 0 {
		return io.EOF
	}
	*it, *l = (*l)[0], (*l)[1:]
	return nil
}

func requestAt(s float64) Item {
	return Item{Request: &ingest.Request{Class: "c", Attempt: 1, ArrivedAt: DefaultStart.Add(time.Duration(s * 1e9)), PromptTokens: 100, CachedTokens: 0, OutputTokens: 10}}
}

func TestSourceClosesEveryMinute(t *testing.T) {
	week := maxSilence.Seconds()
	items := listed{requestAt(61), requestAt(119.9), requestAt(240), requestAt(240 + 2*week)}
	s := NewSource(&items, "p")
	var b ingest.Batch
	var got []string
	for {
		if err := s.Next(&b); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		line := fmt.Sprintf("%d:", b.Sequence)
		for _, r := range b.Requests {
			line += fmt.Sprintf(" %s/%s@%g", r.Pool, r.ID, r.ArrivedAt.Sub(DefaultStart).Seconds())
		}
		if w := b.Watermark; w != nil {
			line += fmt.Sprintf(" %s<%g", w.Pool, w.At.Sub(DefaultStart).Seconds())
		}
		got = append(got, line)
	}
	want := []string{
		"1: p/1@61 p/2@119.9 p<120", "2: p<180", "3: p<240", "4: p/3@240 p<300",
		fmt.Sprintf("5: p/4@%g p<%g", 240+2*week, 300+2*week), // minutes of a hole of two weeks are left out
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSourceBoundsBatches(t *testing.T) {
	var items listed
	for range 2*batchRecords + 1 {
		items = append(items, requestAt(1))
	}
	s := NewSource(&items, "")
	var b ingest.Batch
	var sizes []int
	for s.Next(&b) == nil {
		sizes = append(sizes, len(b.Requests))
	}
	if diff := cmp.Diff([]int{batchRecords, batchRecords, 1}, sizes); diff != "" {
		t.Error(diff)
	}
}

func TestScanSumsByTheMinute(t *testing.T) {
	cfg := features.DefaultConfig()
	cfg.Lateness, cfg.Revise = 0, 0
	d, err := Scan(t.Context(), NewSource(&listed{requestAt(0), requestAt(30), requestAt(130)}, ""), cfg)
	if err != nil {
		t.Fatal(err)
	}
	var prefill []float64
	for _, m := range d.Minutes {
		prefill = append(prefill, m.Of(features.DimPrefill))
	}
	if diff := cmp.Diff([]float64{200. / 60, 0, 100. / 60}, prefill); diff != "" {
		t.Error(diff)
	}
	if !d.Start.Equal(DefaultStart) || len(d.Minutes) != 3 || !math.IsNaN(d.At(d.Start.Add(3*time.Minute)).Of(features.DimPrefill)) {
		t.Errorf("%d minutes from %s, load after the end %v; want three minutes, and NaN", len(d.Minutes), d.Start, d.At(d.Start.Add(3*time.Minute)))
	}
	if got := d.Peak().Of(features.DimDecode); got != 20./60 {
		t.Errorf("peak decode %g, want %g", got, 20./60)
	}
}

// TestMinutesInHolesAreUnknown: a silence more than ten times as long as any before it is a hole in the log. Its
// minutes are unknown. A later silence of the same length is not a hole, nor is any silence in the first days of a
// trace.
func TestMinutesInHolesAreUnknown(t *testing.T) {
	var items listed
	talk := func(from, to float64) { // hours
		for s := from * 3600; s < to*3600; s += 300 {
			items = append(items, requestAt(s))
		}
	}
	talk(0, 10)
	talk(10.5, 50)
	talk(54.5, 56) // after a silence of 4.5 hours: less than ten times the first
	talk(103, 105) // after 47 hours: more than ten times that
	talk(152, 153) // after 47 hours again
	s := NewSource(&items, "p")
	var b ingest.Batch
	unknown, last := map[int]int{}, 0 // minutes by the hour in which the first of them begins
	from := 0
	for s.Next(&b) == nil {
		w := b.Watermark
		minute := int(w.At.Sub(DefaultStart)/time.Minute) - 1
		if minute != last && minute != last+1 {
			t.Fatalf("minute %d after %d", minute, last)
		}
		if w.Pool == "" {
			if unknown[from] == 0 || from+unknown[from] != minute {
				from = minute
			}
			unknown[from]++
			if len(b.Requests) > 0 {
				t.Errorf("minute %d is unknown although it has requests", minute)
			}
		} else if w.Pool != "p" {
			t.Errorf("minute %d is of pool %q", minute, w.Pool)
		}
		last = minute
	}
	if diff := cmp.Diff(map[int]int{55*60 + 56: 47*60 + 4}, unknown); diff != "" {
		t.Error(diff)
	}
}
