package features

import "slices"

// The dimensions of demand, as named in every output.
const (
	DimRequests = "requests"
	DimPrefill  = "prefill"
	DimCached   = "cached"
	DimDecode   = "decode"
	DimKV       = "kv"
	DimRetry    = "retry"

	DimServed        = "served"
	DimWastedPrefill = "wasted_prefill"
	DimWastedDecode  = "wasted_decode"
)

// Dimension is one row of the table of demand dimensions.
type Dimension struct {
	Name    string
	Unit    string // of Value's result
	Series  string // Prometheus series name of the observed value
	Help    string
	reports Reports // what records must report for the value to be known
	parts   func(w *Window) parts
}

// parts are the sums of a dimension over a minute. See Attempts.
type parts struct {
	calls    float64 // demand, without the correction for queues
	delayed  float64 // that correction
	again    float64 // work of engines for retries
	unserved float64 // the part of calls that failed attempts still needed
}

// Value extracts the dimension from a window; ok is false when the window does not know it.
func (d *Dimension) Value(w *Window) (value float64, ok bool) {
	return d.rate(w, w.Censored), w.knows(d.reports)
}

// rate is the dimension's demand averaged over the minute.
func (d *Dimension) rate(w *Window, censored bool) float64 {
	p := d.parts(w)
	if censored {
		p.calls += p.delayed
	}
	return max(p.calls, 0) / seconds
}

// Dimensions is the table: to add a dimension, add a row. Rates are averaged over the minute. The order is the order of
// every output; the forecast ones come first.
var Dimensions = []Dimension{
	{
		Name: DimRequests, Unit: "1/s", Series: "forewarm_demand_requests_per_second",
		Help:    "Calls that arrived. Each counts once, also if it failed or was tried again.",
		reports: ReportsRequests,
		parts:   func(w *Window) parts { return parts{calls: w.Requests, again: w.Retries} },
	},
	{
		Name: DimPrefill, Unit: "tokens/s", Series: "forewarm_demand_prefill_tokens_per_second",
		Help:    "Prompt tokens to compute: those that prefix cache did not serve. For calls that were not served, what it would have served is estimated.",
		reports: ReportsPrompt,
		parts: func(w *Window) parts {
			return parts{calls: w.PromptTokens - w.CachedTokens - w.CachedUnserved, again: w.PromptRetried}
		},
	},
	{
		Name: DimDecode, Unit: "tokens/s", Series: "forewarm_demand_decode_tokens_per_second",
		Help: "Output tokens, in the minute in which they were generated, or in which the request arrived if its record has no times. Also those " +
			"expected of calls that failed or were turned away. While the pool was too full (censored minutes), as if all calls were served to their end when they arrived.",
		reports: ReportsOutput,
		parts: func(w *Window) parts {
			return parts{
				calls:   w.OutputTokens - w.OutputRetried + w.OutputUnserved,
				delayed: w.OutputDelayed, again: w.OutputRetried, unserved: w.OutputUnserved,
			}
		},
	},
	{
		Name: DimKV, Unit: "tokens", Series: "forewarm_demand_kv_tokens",
		Help: "KV-cache tokens, averaged over the minute: those held, and those expected of calls that failed or were turned away. " +
			"While the pool was too full (censored minutes), as if all calls were served to their end when they arrived.",
		reports: ReportsKV,
		parts: func(w *Window) parts {
			return parts{
				calls:   w.KVTokenSeconds + w.KVModelled - w.KVRetried + w.KVUnserved,
				delayed: w.KVDelayed, again: w.KVRetried, unserved: w.KVUnserved,
			}
		},
	},
	{
		Name: DimCached, Unit: "tokens/s", Series: "forewarm_demand_cached_tokens_per_second",
		Help:    "Prompt tokens served from prefix cache.",
		reports: ReportsCached,
		parts:   func(w *Window) parts { return parts{calls: w.CachedTokens} },
	},
	{
		Name: DimRetry, Unit: "1/s", Series: "forewarm_demand_retries_per_second",
		Help:    "Attempts at calls that were counted before.",
		reports: ReportsAttempts,
		parts:   func(w *Window) parts { return parts{calls: w.Retries} },
	},
	{
		Name: DimServed, Unit: "1/s", Series: "forewarm_demand_served_per_second",
		Help:    "Attempts that were served to their end, in the minute in which they arrived.",
		reports: ReportsAttempts,
		parts:   func(w *Window) parts { return parts{calls: w.Served} },
	},
	{
		Name: DimWastedPrefill, Unit: "tokens/s", Series: "forewarm_demand_wasted_prefill_tokens_per_second",
		Help:    "Prompt tokens computed for attempts that failed or were given up, in the minute in which they arrived.",
		reports: ReportsAttempts,
		parts:   func(w *Window) parts { return parts{calls: w.PromptWasted} },
	},
	{
		Name: DimWastedDecode, Unit: "tokens/s", Series: "forewarm_demand_wasted_decode_tokens_per_second",
		Help:    "Output tokens generated for attempts that failed or were given up, in the minute in which they arrived.",
		reports: ReportsAttempts,
		parts:   func(w *Window) parts { return parts{calls: w.OutputWasted} },
	},
}

// forecastDimensions is the number of dimensions that are forecast.
const forecastDimensions = 4

// Forecast are the dimensions that are corrected for reporting delay and projected ahead. The others are reported only.
var Forecast = Dimensions[:forecastDimensions]

// ForecastIndex is the index of a dimension in Forecast; negative for another.
func ForecastIndex(name string) int {
	return slices.IndexFunc(Forecast, func(d Dimension) bool { return d.Name == name })
}

// DimensionByName finds a row of the table.
func DimensionByName(name string) (Dimension, bool) {
	if i := slices.IndexFunc(Dimensions, func(d Dimension) bool { return d.Name == name }); i >= 0 {
		return Dimensions[i], true
	}
	return Dimension{}, false
}
