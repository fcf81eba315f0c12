package features

import "math"

// nowcasts are the nowcasts of a class: the reporting of each row of nowcasted, and the open minutes. A class has them
// once records of its pool came late and it has traffic. With a revise span of ten minutes they take about 3 KiB.
type nowcasts struct {
	Since   int64       `cbor:"1,keyasint"` // the first minute that was observed from its first count
	Records float32     `cbor:"2,keyasint"` // records per minute, averaged over half an hour
	Settled float32     `cbor:"3,keyasint"` // minutes in that average
	Rows    []reporting `cbor:"4,keyasint"`

	// Of the open minutes, by minute modulo their number:
	Last   []float32   `cbor:"5,keyasint"` // the value at the last Close, by row; NaN when unknown
	Issued []issuedNow `cbor:"6,keyasint"` // by row and scored age
	Open   []byte      `cbor:"7,keyasint"` // bit 0: something was missing at the last Close; bit 1: at the one before

	estimates []Estimate // of this Close, by age and row
	ages      int        // number of incomplete ages
}

// issuedNow is a nowcast that waits for its minute to settle.
type issuedNow struct {
	Mean float32 `cbor:"1,keyasint"`
	SD   float32 `cbor:"2,keyasint"`
}

const (
	recordsMinutes = 30
	// missingSteps is how much of one request must be missing from a minute for a nowcast.
	missingSteps = 0.01
)

func newNowcasts(revise, since int64) *nowcasts {
	n := int(revise) + 1
	d := &nowcasts{
		Since: since, Rows: make([]reporting, len(nowcasted)), Last: make([]float32, n*len(nowcasted)),
		Issued: make([]issuedNow, n*len(nowcasted)*scoredAges), Open: make([]byte, n),
	}
	for i := range d.Rows {
		d.Rows[i] = newReporting(int(revise))
	}
	return d
}

// fits reports whether a restored state matches this revise span.
func (d *nowcasts) fits(revise int64) bool {
	n := int(revise) + 1
	ok := len(d.Rows) == len(nowcasted) && len(d.Last) == n*len(nowcasted) &&
		len(d.Issued) == n*len(nowcasted)*scoredAges && len(d.Open) == n
	for i := range d.Rows {
		ok = ok && d.Rows[i].Hazards.fits(revise)
	}
	return ok
}

func (h *hazards) fits(revise int64) bool {
	return len(h.Late) == int(revise) && len(h.Seen) == int(revise)
}

// count adds the records of a minute that settles.
func (d *nowcasts) count(records float64) {
	d.Settled = min(d.Settled+1, recordsMinutes)
	d.Records += (float32(records) - d.Records) / d.Settled
}

// slot is the index of an open minute in the rings.
func (d *nowcasts) slot(minute int64) int {
	n := int64(len(d.Open))
	return int(((minute % n) + n) % n)
}

// issue stores a nowcast to be scored, and the count before the next increment.
func (d *nowcasts) issue(row int, m int64, age int, e *Estimate) {
	i := d.slot(m)*len(d.Rows) + row
	d.Last[i] = float32(e.Counted)
	if age < scoredAges {
		d.Issued[i*scoredAges+age] = issuedNow{float32(e.Mean), float32(e.SD)}
	}
}

// score compares the nowcasts of a minute with its settled value.
func (d *nowcasts) score(row int, m int64, y float64) {
	i := d.slot(m)*len(d.Rows) + row
	for age, was := range d.Issued[i*scoredAges : (i+1)*scoredAges] {
		if z := (y - float64(was.Mean)) / float64(was.SD); was.SD > 0 && !math.IsNaN(z) && was.Mean >= scoredFrom*d.Rows[row].Size {
			d.Rows[row].Errors[age].score(z)
		}
	}
}

// of returns the nowcasts of a minute that is age minutes old, nil when it is complete.
func (d *nowcasts) of(age int64) []Estimate {
	if d == nil || age >= int64(d.ages) {
		return nil
	}
	i := int(age) * len(d.Rows)
	return d.estimates[i : i+len(d.Rows) : i+len(d.Rows)]
}

// moved reports whether the nowcast of an open minute may have changed.
func (d *nowcasts) moved(m int64) bool { return d != nil && d.Open[d.slot(m)]&3 != 0 }
