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

// daily is a demand with the same course every day and a steep morning, in requests per second.
func daily(at time.Time) float64 {
	hour := at.Sub(at.Truncate(24 * time.Hour)).Hours()
	return 20 + 15*math.Tanh(4*(hour-8)) - 15*math.Tanh(4*(hour-18))
}

// historiesBefore returns the histories of the days before at, one message a day.
func historiesBefore(at time.Time, days int) (batches []ingest.Batch) {
	for day := at.AddDate(0, 0, -days); day.Before(at); day = day.AddDate(0, 0, 1) {
		h := ingest.History{Pool: "p", Class: features.TotalClass, Dimension: features.DimRequests, Start: day}
		for m := range ingest.MaxHistoryMinutes {
			h.Values = append(h.Values, daily(day.Add(time.Duration(m)*time.Minute)))
		}
		batches = append(batches, ingest.Batch{Histories: []ingest.History{h}})
	}
	return batches
}

// telemetryAt is the telemetry of a minute of that demand.
func telemetryAt(at time.Time) ingest.Batch {
	return ingest.Batch{
		Sums: []ingest.Sum{{
			Pool: "p", Class: "c", Start: at, Requests: 60 * daily(at), PromptTokens: 6e4 * daily(at), CachedTokens: 0, OutputTokens: 6e3 * daily(at),
		}},
		Watermark: &ingest.Watermark{Pool: "p", At: at.Add(time.Minute)},
	}
}

// With histories of two days, a rise that comes each morning is forecast from the first minutes of telemetry on. A
// restart between two histories changes nothing.
func TestHistory(t *testing.T) {
	now := midnight.Add(7 * time.Hour)
	filled, again, cold := New(eventConfig(t, "p")), New(eventConfig(t, "p")), New(eventConfig(t, "p"))
	for i, b := range historiesBefore(now, 2) {
		for _, p := range []*Pipeline{filled, again} {
			if p.Apply(&b, nil); len(b.Refused) > 0 {
				t.Fatal(b.Refused)
			}
		}
		if i == 0 {
			again = restarted(t, eventConfig(t, "p"), again)
		}
	}
	if !bytes.Equal(saved(t, filled), saved(t, again)) {
		t.Error("a restart between histories changes the state")
	}
	const minutes, ahead = 40, 30
	median := func(p *Pipeline) (forecast float64) {
		for m := range minutes {
			b := telemetryAt(now.Add(time.Duration(m) * time.Minute))
			p.Apply(&b, func(o *Output) {
				for _, f := range o.Pools {
					if len(f.Forecast.Total) > 0 {
						forecast = f.Forecast.Total[0].Minute[ahead-1][forecaster.L50]
					}
				}
			})
		}
		return forecast
	}
	want := daily(now.Add((minutes + ahead - 1) * time.Minute))
	with, without := math.Abs(median(filled)-want), math.Abs(median(cold)-want)
	if with > .4*without {
		t.Errorf("half an hour ahead the error of the forecast is %.1f of %.1f requests/s; without histories %.1f", with, want, without)
	}
}

func TestRefusedHistories(t *testing.T) {
	p := New(eventConfig(t, "p"))
	b := telemetryAt(midnight)
	p.Apply(&b, func(*Output) {})
	for name, c := range map[string]struct {
		change func(*ingest.History)
		want   string
	}{
		"after telemetry":   {func(*ingest.History) {}, "overlaps the known minutes"},
		"unknown pool":      {func(h *ingest.History) { h.Pool = "q" }, "pool \"q\" is not in the configuration"},
		"of a class":        {func(h *ingest.History) { h.Class = "c" }, "set its class to *"},
		"unknown dimension": {func(h *ingest.History) { h.Dimension = "x" }, "\"x\" is not forecast"},
	} {
		b := historiesBefore(midnight.Add(time.Minute), 1)[0]
		c.change(&b.Histories[0])
		before := p.Counters().Refused[ingest.ReasonNoHistory]
		p.Apply(&b, func(*Output) {})
		if len(b.Refused) != 1 || b.Refused[0].Reason != ingest.ReasonNoHistory || !strings.Contains(b.Refused[0].Detail, c.want) ||
			p.Counters().Refused[ingest.ReasonNoHistory] != before+1 {
			t.Errorf("%s: %+v", name, b.Refused)
		}
	}
}
