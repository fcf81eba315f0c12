package server

import (
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
)

// classJSON is the stored series of one class over the last day; empty if no series of the class are stored.
type classJSON struct {
	Pool   string       `json:"pool"`
	Class  string       `json:"class"`
	From   time.Time    `json:"from"`
	To     time.Time    `json:"to"`
	Step   number       `json:"step_seconds"` // a point is the mean of its known minutes
	Series []seriesJSON `json:"series"`
}

// seriesJSON is one stored series; its name is that in PromQL.
type seriesJSON struct {
	Series   string      `json:"series"`
	Quantile string      `json:"quantile,omitempty"`
	Unit     string      `json:"unit"`
	Group    string      `json:"group"` // series of one group are in one chart
	Label    string      `json:"label"`
	Points   []pointJSON `json:"points"`
}

// classSeries are the series of lengths and latencies; demand comes from features.Dimensions.
var classSeries = []seriesJSON{
	{Series: "forewarm_prompt_tokens", Quantile: "0.5", Unit: "tokens", Group: "Length of prompts", Label: "half are below"},
	{Series: "forewarm_prompt_tokens", Quantile: "0.95", Unit: "tokens", Group: "Length of prompts", Label: "19 of 20 are below"},
	{Series: "forewarm_output_tokens", Quantile: "0.5", Unit: "tokens", Group: "Length of outputs", Label: "half are below"},
	{Series: "forewarm_output_tokens", Quantile: "0.95", Unit: "tokens", Group: "Length of outputs", Label: "19 of 20 are below"},
	{Series: "forewarm_demand_cached_tokens_per_second", Unit: "tokens/s", Group: "Prompt tokens served from cache", Label: "cache hits"},
	{Series: "forewarm_ttft_seconds", Quantile: "0.95", Unit: "s", Group: "Time to the first token", Label: "19 of 20 are below"},
	{Series: "forewarm_itl_seconds", Quantile: "0.95", Unit: "s", Group: "Time per output token", Label: "19 of 20 are below"},
}

const (
	classSpan = 24 * time.Hour
	classBin  = 10 // minutes of which a point is the mean
)

// meanOfKnown is the mean of the known values; NaN without any.
func meanOfKnown(values []float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / n
}

// class answers /api/v1/pools/{pool}/classes/{class}. Class * is the pool, and an empty one is traffic without a class.
func (s *Server) class(r *http.Request, p *PoolView) (*classJSON, error) {
	class, to := r.PathValue("class"), p.Forecast.Origin.UTC()
	out := &classJSON{Pool: p.Pool, Class: class, From: to.Add(-classSpan), To: to, Step: 60 * classBin, Series: []seriesJSON{}}
	var wanted []seriesJSON
	for _, d := range features.Forecast {
		wanted = append(wanted, seriesJSON{Series: d.Series, Unit: d.Unit, Group: dimensionName(d.Name), Label: "demand"})
	}
	for _, x := range append(wanted, classSeries...) {
		labels := map[string]string{"pool": p.Pool, "class": class}
		if x.Quantile != "" {
			labels["quantile"] = x.Quantile
		}
		values, err := s.History.Values(r.Context(), x.Series, labels, out.From, out.To)
		if err != nil {
			return nil, err
		}
		if values == nil {
			continue
		}
		x.Points = []pointJSON{}
		for bin := range slices.Chunk(values, classBin) {
			at := out.From.Add(time.Duration(len(x.Points)*classBin) * time.Minute)
			x.Points = append(x.Points, pointJSON{at, number(meanOfKnown(bin))})
		}
		out.Series = append(out.Series, x)
	}
	known := func(f forecaster.Forecast) bool { return f.Class == class }
	if len(out.Series) == 0 && !slices.ContainsFunc(slices.Concat(p.Forecast.Total, p.Forecast.Classes), known) {
		return nil, Problemf(http.StatusNotFound, "no class %q of pool %q; /api/v1/pools/%s/forecast lists those there are", class, p.Pool, p.Pool)
	}
	return out, nil
}
