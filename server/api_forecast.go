package server

import (
	"bytes"
	"cmp"
	"net/http"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

type forecastsJSON struct {
	Pool      string         `json:"pool"`
	Levels    []float64      `json:"levels"` // of every list of quantiles below
	Forecasts []forecastJSON `json:"forecasts"`
}

type forecastJSON struct {
	Class      string                `json:"class"`
	Dimension  string                `json:"dimension"`
	Unit       string                `json:"unit"`
	Origin     time.Time             `json:"origin"`
	Last       number                `json:"last"`
	Now        nowJSON               `json:"now"`
	Confidence forecaster.Confidence `json:"confidence"`
	Fallback   bool                  `json:"fallback"`
	Minutes    [][]number            `json:"minutes"`    // minutes[h-1] is [origin + (h−1) min, origin + h min)
	WindowMax  []number              `json:"window_max"` // of the largest minute in 15…30
}

// nowJSON is the demand of the newest minute.
type nowJSON struct {
	Mean number `json:"mean"`
	// Reported is the share of it that is in records already.
	Reported number `json:"reported"`
}

// pointJSON is the minute that starts at a time.
type pointJSON struct {
	At    time.Time `json:"at"`
	Value number    `json:"value"`
}

// getForecast answers the forecasts of a pool, all of them or those of one class and dimension (?class=*&dimension=kv).
func getForecast(r *http.Request, p *PoolView) (any, error) {
	class, dimension := r.URL.Query().Get("class"), r.URL.Query().Get("dimension")
	out := forecastsJSON{Pool: p.Pool, Levels: forecaster.Levels[:], Forecasts: []forecastJSON{}}
	for f := range p.forecasts() {
		if (class == "" || f.Class == class) && (dimension == "" || f.Dimension == dimension) {
			out.Forecasts = append(out.Forecasts, forecastToJSON(f))
		}
	}
	return out, nil
}

func forecastToJSON(f *forecaster.Forecast) forecastJSON {
	out := forecastJSON{
		Class: f.Class, Dimension: f.Dimension, Unit: unit(f.Dimension), Origin: f.Origin.UTC(), Last: number(f.Last),
		Now:        nowJSON{number(f.Now.Mean), number(f.Now.Share)},
		Confidence: f.Confidence, Fallback: f.Fallback,
		Minutes: make([][]number, forecaster.Horizon), WindowMax: numbers(&f.WindowMax),
	}
	for h := range f.Minute {
		out.Minutes[h] = numbers(&f.Minute[h])
	}
	return out
}

func numbers(q *forecaster.Quantiles) []number {
	out := make([]number, len(q))
	for i, x := range q {
		out[i] = number(x)
	}
	return out
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
	for f := range p.forecasts() {
		if f.Class == class && (dimension == "" || f.Dimension == dimension) {
			return forecastBasisJSON{forecaster.Explain(f), unit(f.Dimension)}, nil
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
