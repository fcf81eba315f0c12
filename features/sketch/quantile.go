package sketch

// Quantile is a mergeable quantile sketch with a guaranteed relative error.
type Quantile struct{}
