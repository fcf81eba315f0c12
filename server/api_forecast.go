package server

import (
	"bytes"
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// forecastMinutes and forecastLevels are the content of a forecast, small and enough for planning.
var (
	forecastMinutes = []int{1, 5, 10, 15, 20, 25, 30, 45, 60}
	forecastLevels  = []int{forecaster.L10, forecaster.L50, forecaster.L80, forecaster.L90, forecaster.L95, forecaster.L99}
)

// ClassForecast is the forecasts of one class in the API, and on <prefix>.forecast.<pool>.<class>.
type ClassForecast struct {
	Pool       string                       `json:"pool"`
	Class      string                       `json:"class"` // "*" is the pool
	Origin     time.Time                    `json:"origin"`
	Stale      bool                         `json:"stale"`     // telemetry is too old to forecast from
	Minutes    []int                        `json:"minutes"`   // minute h is [origin + (h−1) min, origin + h min)
	Quantiles  []float64                    `json:"quantiles"` // of every list of values
	Dimensions map[string]DimensionForecast `json:"dimensions"`
}

// DimensionForecast is one dimension.
type DimensionForecast struct {
	Unit       string                `json:"unit"`
	Confidence forecaster.Confidence `json:"confidence"`
	Fallback   bool                  `json:"fallback"` // the last value weighs more than the network's forecast, because recent outcomes were nearer to it
	Values     [][]float64           `json:"values"`   // values[i][j] is quantile j at minute i
	Max15To30  []float64             `json:"max15_30"` // of the largest minute in 15…30
}

// ForecastsOf are the forecasts of a pool, by class.
func ForecastsOf(pf *forecaster.PoolForecast) []ClassForecast {
	all := []ClassForecast{}
	for _, f := range slices.Concat(pf.Total, pf.Classes) {
		i := slices.IndexFunc(all, func(x ClassForecast) bool { return x.Class == f.Class })
		if i < 0 {
			i = len(all)
			all = append(all, ClassForecast{
				Pool: pf.Pool, Class: f.Class, Origin: pf.Origin, Stale: pf.Stale, Minutes: forecastMinutes,
				Quantiles: atLevels(forecaster.Levels), Dimensions: map[string]DimensionForecast{},
			})
		}
		x := DimensionForecast{Unit: unit(f.Dimension), Confidence: f.Confidence, Fallback: f.Fallback, Max15To30: atLevels(f.WindowMax)}
		for _, h := range forecastMinutes {
			x.Values = append(x.Values, atLevels(f.Minute[h-1]))
		}
		all[i].Dimensions[f.Dimension] = x
	}
	return all
}

func atLevels(q forecaster.Quantiles) []float64 {
	return columnOf(forecastLevels, func(level *int) float64 { return q[*level] })
}

type forecastsJSON struct {
	Pool      string          `json:"pool"`
	Forecasts []ClassForecast `json:"forecasts"`
}

// getForecast answers the forecasts of a pool, all of them or those of one class (?class=*).
func getForecast(r *http.Request, p *PoolView) (any, error) {
	class := r.FormValue("class")
	all := slices.DeleteFunc(ForecastsOf(&p.Forecast), func(x ClassForecast) bool { return class != "" && x.Class != class })
	return forecastsJSON{p.Pool, all}, nil
}

// pointJSON is the minute that starts at a time.
type pointJSON struct {
	At    time.Time `json:"at"`
	Value number    `json:"value"`
}

type forecastBasisJSON struct {
	forecaster.Explanation
	Unit string `json:"unit"`
}

// getForecastBasis answers with the basis of one forecast: ?pool=chat&class=agent&dimension=kv. The default class is
// the whole pool. The default dimension is the binding resource, or else the first one.
func (s *Server) getForecastBasis(r *http.Request) (any, error) {
	if r.FormValue("pool") == "" {
		return nil, Problemf(http.StatusBadRequest, "pool is missing: add ?pool= and a name that /api/v1/pools lists")
	}
	p, err := find(s.reader, r.FormValue("pool"))
	if err != nil {
		return nil, err
	}
	class, dimension := cmp.Or(r.FormValue("class"), features.TotalClass), r.FormValue("dimension")
	if dimension == "" && p.Projection != nil {
		dimension = p.Projection.Binding
	}
	for _, f := range slices.Concat(p.Forecast.Total, p.Forecast.Classes) {
		if f.Class == class && (dimension == "" || f.Dimension == dimension) {
			return forecastBasisJSON{forecaster.Explain(&f), unit(f.Dimension)}, nil
		}
	}
	return nil, Problemf(http.StatusNotFound, "no forecast of class %q and dimension %q; /api/v1/pools/%s/forecast lists those there are", class, dimension, p.Pool)
}

// getExplanation answers with the explanation of a decision; ?format=text for terminals.
func (s *Server) getExplanation(r *http.Request) (any, error) {
	format := cmp.Or(r.FormValue("format"), "json")
	if format != "json" && format != "text" {
		return nil, Problemf(http.StatusBadRequest, "format is %q: it must be json or text", format)
	}
	x, err := s.Explain(r.Context(), r.PathValue("id"))
	if err != nil || format == "json" {
		return x, err
	}
	var b bytes.Buffer
	err = x.WriteText(&b)
	return plainText(b.String()), err
}
