package sketch

// Count is one heavy hitter: its weight is at most Weight and at least Weight − Error.
type Count struct {
	Name          string
	Weight, Error float64
}
