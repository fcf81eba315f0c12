package features

// Kind says how a dimension aggregates.
type Kind uint8

// The kinds of dimension: a rate per second, or a level (tokens held).
const (
	Rate Kind = iota
	Level
)

// The dimensions of demand, as named in every output.
const (
	DimRequests = "requests"
	DimPrefill  = "prefill"
	DimCached   = "cached"
	DimDecode   = "decode"
	DimKV       = "kv"
	DimKVMax    = "kv_max"
	DimRetry    = "retry"
)

// Dimension is one row of the table of demand dimensions.
type Dimension struct {
	Name     string
	Unit     string // of Value's result
	Kind     Kind
	Series   string // Prometheus series name of the observed value
	Help     string
	Forecast bool // projected ahead; the others are reported only
	// Value extracts the dimension from a window; ok is false when the window does not know it.
	Value func(w *Window) (value float64, ok bool)
}
