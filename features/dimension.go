package features

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
	Name     string
	Unit     string // of Value's result
	Series   string // Prometheus series name of the observed value
	Help     string
	Forecast bool // corrected for reporting delay and projected ahead; the others are reported only
	// Value extracts the dimension from a window; ok is false when the window does not know it.
	Value func(w *Window) (value float64, ok bool)
	// attempts is the window's part of Attempts; nil unless Forecast.
	attempts func(w *Window) (calls, again, unserved float64)

	nowcast int // index into Window.Nowcast; valid if Forecast
}

// Dimensions is the table: to add a dimension, add a row. Rates are averaged over the minute. The order is the order of
// every output.
var Dimensions = []Dimension{
	{
		Name: DimRequests, Unit: "1/s", Series: "forewarm_demand_requests_per_second", Forecast: true,
		Help: "Calls that arrived. Each counts once, also if it failed or was tried again.",
		Value: func(w *Window) (float64, bool) {
			return w.Requests / seconds, w.knows(ReportsRequests, w.RequestsKnown > 0)
		},
		attempts: func(w *Window) (calls, again, unserved float64) { return w.Requests / seconds, w.Retries / seconds, 0 },
	},
	{
		Name: DimPrefill, Unit: "tokens/s", Series: "forewarm_demand_prefill_tokens_per_second", Forecast: true,
		Help: "Prompt tokens to compute: those that prefix cache did not serve. For calls that were not served, what it would have served is estimated.",
		Value: func(w *Window) (float64, bool) {
			return (w.PromptTokens - w.CachedTokens - w.CachedUnserved) / seconds, w.knows(ReportsPrompt, w.PromptKnown > 0)
		},
		attempts: func(w *Window) (calls, again, unserved float64) {
			return (w.PromptTokens - w.CachedTokens - w.CachedUnserved) / seconds, w.PromptRetried / seconds, 0
		},
	},
	{
		Name: DimCached, Unit: "tokens/s", Series: "forewarm_demand_cached_tokens_per_second",
		Help: "Prompt tokens served from prefix cache.",
		Value: func(w *Window) (float64, bool) {
			return w.CachedTokens / seconds, w.knows(ReportsCached, w.CachedKnown > 0)
		},
	},
	{
		Name: DimDecode, Unit: "tokens/s", Series: "forewarm_demand_decode_tokens_per_second", Forecast: true,
		Help: "Output tokens, in the minute in which they were generated, or in which the request arrived if its record has no times. Also those " +
			"expected of calls that were not served to their end. While the pool was too full (censored minutes), as if all calls were served when they arrived.",
		Value: func(w *Window) (float64, bool) {
			return w.decode() / seconds, w.knows(ReportsOutput, w.OutputKnown > 0 || w.OutputTokens > 0 || w.OutputUnserved != 0)
		},
		attempts: func(w *Window) (calls, again, unserved float64) {
			return (w.OutputTokens - w.OutputRetried + w.OutputUnserved) / seconds, w.OutputRetried / seconds, w.OutputUnserved / seconds
		},
	},
	{
		Name: DimKV, Unit: "tokens", Series: "forewarm_demand_kv_tokens", Forecast: true,
		Help: "KV-cache tokens, averaged over the minute: those held, and those expected of calls that were not served to their end. " +
			"While the pool was too full (censored minutes), as if all calls were served when they arrived.",
		Value: func(w *Window) (float64, bool) {
			return w.kv() / seconds, w.knows(ReportsKV, w.KVKnown > 0 || w.KVTimed || w.KVUnserved != 0)
		},
		attempts: func(w *Window) (calls, again, unserved float64) {
			return (w.KVTokenSeconds + w.KVModelled - w.KVRetried + w.KVUnserved) / seconds, w.KVRetried / seconds, w.KVUnserved / seconds
		},
	},
	{
		Name: DimRetry, Unit: "1/s", Series: "forewarm_demand_retries_per_second",
		Help: "Attempts at calls that were counted before.",
		Value: func(w *Window) (float64, bool) {
			return w.Retries / seconds, w.knows(ReportsAttempts, w.Attempts > 0)
		},
	},
	{
		Name: DimServed, Unit: "1/s", Series: "forewarm_demand_served_per_second",
		Help: "Attempts that were served to their end, in the minute in which they arrived.",
		Value: func(w *Window) (float64, bool) {
			return w.Served / seconds, w.knows(ReportsAttempts, w.Attempts > 0)
		},
	},
	{
		Name: DimWastedPrefill, Unit: "tokens/s", Series: "forewarm_demand_wasted_prefill_tokens_per_second",
		Help: "Prompt tokens computed for attempts that failed or were given up, in the minute in which they arrived.",
		Value: func(w *Window) (float64, bool) {
			return w.PromptWasted / seconds, w.knows(ReportsAttempts, w.Attempts > 0)
		},
	},
	{
		Name: DimWastedDecode, Unit: "tokens/s", Series: "forewarm_demand_wasted_decode_tokens_per_second",
		Help: "Output tokens generated for attempts that failed or were given up, in the minute in which they arrived.",
		Value: func(w *Window) (float64, bool) {
			return w.OutputWasted / seconds, w.knows(ReportsAttempts, w.Attempts > 0)
		},
	},
}

// DimensionByName finds a row of the table.
func DimensionByName(name string) (Dimension, bool) {
	for _, d := range Dimensions {
		if d.Name == name {
			return d, true
		}
	}
	return Dimension{}, false
}
