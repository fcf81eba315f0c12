package features

import "math"

// lag is the reporting delay of a pool, the prior for young classes.
type lag struct {
	Late bool      `cbor:"1,keyasint"` // records have come after the first count of their minute
	Gap  int64     `cbor:"2,keyasint"` // the newest minute without live telemetry at its end
	Rows []hazards `cbor:"3,keyasint"`
}

func newLag(revise int64) lag {
	l := lag{Gap: math.MinInt64, Rows: make([]hazards, len(nowcasted))}
	for i := range l.Rows {
		l.Rows[i] = newHazards(int(revise))
	}
	return l
}

func (l *lag) fits(revise int64) bool {
	ok := len(l.Rows) == len(nowcasted)
	for i := range l.Rows {
		ok = ok && l.Rows[i].fits(revise)
	}
	return ok
}
