package daemon

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/ingest"
)

// logDecision logs a decision that differs from the previous one.
func (d *Daemon) logDecision(x *alerting.Decision) {
	prefill := 0
	if x.ByRole != nil {
		prefill = x.ByRole.Prefill
	}
	now := fmt.Sprint(x.PoolAction(), x.Desired, prefill, x.Withheld)
	if d.decided[x.Pool] == now {
		return
	}
	d.decided[x.Pool] = now
	d.log.Info(x.Reason, zap.String("pool", x.Pool), zap.Time("tick", x.Tick), zap.String("action", string(x.PoolAction())), zap.Int("desired", x.Desired), zap.String("withheld", x.Withheld))
}

// publishedMinutes and publishedLevels are the content of a forecast message: enough for planning, and small. The
// backtest writes every minute.
var (
	publishedMinutes = []int{1, 5, 10, 15, 20, 25, 30, 45, 60}
	publishedLevels  = []int{forecaster.L10, forecaster.L50, forecaster.L80, forecaster.L90, forecaster.L95, forecaster.L99}
)

// forecastMessage is the body on <prefix>.forecast.<pool>.<class>.
type forecastMessage struct {
	Pool       string                   `json:"pool"`
	Class      string                   `json:"class"` // "*" is the pool
	Origin     time.Time                `json:"origin"`
	Stale      bool                     `json:"stale"`
	Minutes    []int                    `json:"minutes"`
	Quantiles  []float64                `json:"quantiles"`
	Dimensions map[string]forecastQuant `json:"dimensions"`
}

// forecastQuant is one dimension: values[i][j] is quantile j at minute i.
type forecastQuant struct {
	Unit       string                `json:"unit"`
	Confidence forecaster.Confidence `json:"confidence"`
	Fallback   bool                  `json:"fallback"`
	Values     [][]float64           `json:"values"`
	Max15To30  []float64             `json:"max15_30"`
}

// publishForecasts sends one message per class and per pool total. The stream keeps the newest. A lost message is
// replaced a minute later, so it waits for no acknowledgement.
func publishForecasts(conn *nats.Conn, prefix string, pools []forecaster.PoolForecast) error {
	for i := range pools {
		pf, messages := &pools[i], map[string]*forecastMessage{}
		rows := slices.Concat(pf.Classes, pf.Total)
		for j := range rows {
			f := &rows[j]
			m := messages[f.Class]
			if m == nil {
				m = &forecastMessage{
					Pool: pf.Pool, Class: f.Class, Origin: pf.Origin, Stale: pf.Stale, Minutes: publishedMinutes,
					Quantiles: published((*forecaster.Quantiles)(&forecaster.Levels)), Dimensions: map[string]forecastQuant{},
				}
				messages[f.Class] = m
			}
			d, _ := features.DimensionByName(f.Dimension)
			q := forecastQuant{Unit: d.Unit, Confidence: f.Confidence, Fallback: f.Fallback, Max15To30: published(&f.WindowMax)}
			for _, h := range publishedMinutes {
				q.Values = append(q.Values, published(&f.Minute[h-1]))
			}
			m.Dimensions[f.Dimension] = q
		}
		for _, class := range slices.Sorted(maps.Keys(messages)) {
			body, err := json.Marshal(messages[class])
			if err != nil {
				return err
			}
			if err := conn.Publish(ingest.Subject(prefix, ingest.ForecastSubject, pf.Pool, class), body); err != nil {
				return err
			}
		}
	}
	return nil
}

func published(q *forecaster.Quantiles) []float64 {
	out := make([]float64, len(publishedLevels))
	for i, level := range publishedLevels {
		out[i] = q[level]
	}
	return out
}
