package forecaster

import "math"

const (
	// NumPaths is the number of joint sample paths of a pool.
	NumPaths = 128
)

// ranks remembers how reality ran through past forecasts: for an origin every five minutes, the level at which each of
// the following 60 minutes fell within its forecast (its probability integral transform). All series of a forecaster
// share the origins, so that reading the same slot of several series replays how they moved together: the Schaake
// shuffle (Clark et al. 2004, doi:10.1175/1525-7541(2004)005<0243:TSSAMF>2.0.CO;2). 10.7 hours of origins, 7.5 KiB.
type ranks struct {
	Slot [NumPaths][Horizon]uint8 // 1..255 for levels in (0,1); from the prior until an origin overwrites it
	Open []openOrigin             // origins whose hour is not over, oldest first
}

// openOrigin is a forecast on its way to becoming a template.
type openOrigin struct {
	Minute int64 // the newest minute when the forecast was made
	Issued [numLeads][NumLevels]float32
}

func quantise(level float64) uint8 { return uint8(1 + math.Round(254*level)) }

func slotOf(minute int64) int { return int(minute/originEvery) % NumPaths }

// observe closes the origins whose hour has settled, and opens one with what was forecast of the targets.
func (r *ranks) observe(s *series, m int64, at *[numTargets]Quantiles) {
	for len(r.Open) > 0 && r.Open[0].Minute+Horizon+int64(s.settle) <= m {
		r.close(s, &r.Open[0])
		r.Open = r.Open[1:]
	}
	o := openOrigin{Minute: m}
	for k := range o.Issued {
		for i, v := range at[k] {
			o.Issued[k][i] = float32(v)
		}
	}
	r.Open = append(r.Open, o)
}

// close turns an origin into a template, unless more than half of its hour is not known.
func (r *ranks) close(s *series, o *openOrigin) {
	var at [numTargets]Quantiles
	for k := range o.Issued {
		for i, v := range o.Issued[k] {
			at[k][i] = float64(v)
		}
	}
	var minutes [Horizon]Quantiles
	interpolate(&at, &minutes)
	var u [Horizon]uint8
	known, last := 0, uint8(128)
	for h := range minutes {
		if y := s.history.At(o.Minute + int64(h) + 1); !math.IsNaN(y) {
			last = quantise(minutes[h].CDF(y))
			known++
		}
		u[h] = last
	}
	if known >= Horizon/2 {
		r.Slot[slotOf(o.Minute)] = u
	}
}
