package pipeline

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/ingest"
)

// daily is a demand whose days are alike, with a steep morning, in requests a second.
func daily(at time.Time) float64 {
	hour := at.Sub(at.Truncate(24 * time.Hour)).Hours()
	return 20 + 15*math.Tanh(4*(hour-8)) - 15*math.Tanh(4*(hour-18))
}

// pastOf are the histories of the days before at, a message a day.
func pastOf(at time.Time, days int) (batches []ingest.Batch) {
	for day := at.AddDate(0, 0, -days); day.Before(at); day = day.AddDate(0, 0, 1) {
		h := ingest.History{Pool: "p", Class: features.TotalClass, Dimension: features.DimRequests, Start: day}
		for m := range ingest.MaxHistoryMinutes {
			h.Values = append(h.Values, daily(day.Add(time.Duration(m)*time.Minute)))
		}
		batches = append(batches, ingest.Batch{Histories: []ingest.History{h}})
	}
	return batches
}

// live is what a minute of that demand sends.
func live(at time.Time) ingest.Batch {
	return ingest.Batch{
		Sums: []ingest.Sum{{
			Pool: "p", Class: "c", Start: at, Requests: 60 * daily(at), PromptTokens: 6e4 * daily(at), CachedTokens: 0, OutputTokens: 6e3 * daily(at),
		}},
		Watermark: &ingest.Watermark{Pool: "p", At: at.Add(time.Minute)},
	}
}

// What was demanded before telemetry began is known from its first minutes on: a rise that comes each morning is
// foreseen. A restart in the middle of it changes nothing.
func TestHistoryTeachesTheSeason(t *testing.T) {
	now := midnight.Add(7 * time.Hour)
	taught, restarted, cold := New(eventConfig(t, "p")), New(eventConfig(t, "p")), New(eventConfig(t, "p"))
	for i, b := range pastOf(now, 2) {
		for _, p := range []*Pipeline{taught, restarted} {
			if p.Apply(&b, nil); len(b.Refused) > 0 {
				t.Fatal(b.Refused)
			}
		}
		if i == 0 {
			restarted = reborn(t, eventConfig(t, "p"), restarted)
		}
	}
	if !bytes.Equal(saved(t, taught), saved(t, restarted)) {
		t.Error("a restart between histories changes the state")
	}
	const minutes, ahead = 40, 30
	ahead50 := func(p *Pipeline) (forecast float64) {
		for m := range minutes {
			b := live(now.Add(time.Duration(m) * time.Minute))
			p.Apply(&b, func(o *Output) {
				for _, f := range o.Forecasts {
					if len(f.Total) > 0 {
						forecast = f.Total[0].Minute[ahead-1][forecaster.L50]
					}
				}
			})
		}
		return forecast
	}
	want := daily(now.Add((minutes + ahead - 1) * time.Minute))
	with, without := math.Abs(ahead50(taught)-want), math.Abs(ahead50(cold)-want)
	if with > .4*without {
		t.Errorf("half an hour ahead, as the morning begins, the forecast is off by %.1f of %.1f requests/s; without histories by %.1f", with, want, without)
	}
}

func TestHistoryIsRefused(t *testing.T) {
	p := New(eventConfig(t, "p"))
	b := live(midnight)
	p.Apply(&b, func(*Output) {})
	for name, c := range map[string]struct {
		to     *Pipeline
		change func(*ingest.History)
		want   string
	}{
		"after telemetry": {p, func(*ingest.History) {}, "overlaps the known minutes"},
		"unknown pool":    {p, func(h *ingest.History) { h.Pool = "q" }, "pool \"q\" is not in the configuration"},
		"no dimension":    {p, func(h *ingest.History) { h.Dimension = "x" }, "\"x\" is not forecast"},
	} {
		b := pastOf(midnight.Add(time.Minute), 1)[0]
		c.change(&b.Histories[0])
		before := c.to.Counters().Refused[ingest.ReasonNoHistory]
		c.to.Apply(&b, func(*Output) {})
		if len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonNoHistory || !strings.Contains(b.Refused[0].Detail, c.want) ||
			c.to.Counters().Refused[ingest.ReasonNoHistory] != before+1 {
			t.Errorf("%s: %+v", name, b.Refused)
		}
	}
}
