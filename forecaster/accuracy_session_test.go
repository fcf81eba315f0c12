package forecaster

import (
	"hash/fnv"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/model"
	"github.com/forewarm/forewarm/ingest"
)

// sessionsAhead is, minute by minute of a trace, what the sessions alive at its end let expect of a class.
type sessionsAhead struct {
	at []*[model.SessionDimensions][model.SessionLeads]float64 // nil while nothing is expected
}

// tell passes it on to a series at minute m of the trace, before the minute is pushed.
func (a *sessionsAhead) tell(x *series, dim string, minute int64, m int) {
	if a == nil || a.at[m] == nil {
		return
	}
	d := slices.IndexFunc(dimensions, func(d features.Dimension) bool { return d.Name == dim })
	x.experts[sessionsExpert].(*model.Given).Tell(minute, &a.at[m][sessionDimension[d]])
}

// sessionsOf folds the requests of a trace through the aggregator, and its windows through the model of sessions.
func sessionsOf(t *testing.T, path string, column map[string]int, n int) map[string]*sessionsAhead {
	trace := openTrace(t, path)
	if trace == nil {
		return nil
	}
	rows, err := trace.ReadAll()
	if err != nil {
		t.Error(err)
		return nil
	}
	rows = rows[1:]
	begin := time.Unix(1_700_006_400, 0).UTC()
	cfg := features.DefaultConfig()
	cfg.Lateness = 0
	a := features.New(cfg)
	classes, out := map[string]*class{}, map[string]*sessionsAhead{}
	total := &sessionsAhead{at: make([]*[model.SessionDimensions][model.SessionLeads]float64, n)}
	out[features.TotalClass] = total
	for m := range n {
		end := begin.Add(time.Duration(m+1) * features.Minute)
		for len(rows) > 0 {
			number := func(name string) int64 {
				x, err := strconv.ParseFloat(rows[0][column[name]], 64)
				if err != nil {
					return ingest.Unknown
				}
				return int64(x)
			}
			s, _ := strconv.ParseFloat(rows[0][column["t_s"]], 64)
			at := begin.Add(time.Duration(s * float64(time.Second)))
			if !at.Before(end) {
				break
			}
			h := fnv.New64a()
			_, _ = h.Write([]byte(rows[0][column["session"]]))
			if reason := a.AddRequest(&ingest.Request{
				Pool: "pool", Class: rows[0][column["class"]], ArrivedAt: at, Session: h.Sum64(), Phase: ingest.PhaseFinished, Attempt: 1,
				PromptTokens: number("prompt_tokens"), CachedTokens: number("cached_tokens"), OutputTokens: number("output_tokens"),
			}); reason != "" {
				t.Errorf("a request of the trace is refused: %s", reason)
			}
			rows = rows[1:]
		}
		a.AddWatermark(&ingest.Watermark{Pool: "pool", At: end})
		windows, _ := a.Close(end)
		for i := range windows {
			w := &windows[i]
			if !w.Start.Add(features.Minute).Equal(end) {
				continue
			}
			c := classes[w.Class]
			if c == nil {
				c = &class{key: w.Key}
				classes[w.Class] = c
				out[w.Class] = &sessionsAhead{at: make([]*[model.SessionDimensions][model.SessionLeads]float64, n)}
			}
			c.converse(int64(m), w, 1)
			if c.ahead == nil {
				continue
			}
			out[w.Class].at[m] = c.ahead
			if total.at[m] == nil {
				total.at[m] = new([model.SessionDimensions][model.SessionLeads]float64)
			}
			for d := range c.ahead {
				for h, y := range c.ahead[d] {
					total.at[m][d][h] += y
				}
			}
		}
	}
	return out
}
