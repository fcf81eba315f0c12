package server

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/forewarm/forewarm/forecaster"
)

// path builds an SVG path; it lifts the pen at NaN.
type path struct {
	b    strings.Builder
	down bool
}

func (p *path) to(x, y float64) {
	switch {
	case math.IsNaN(y):
		p.down = false
		return
	case p.down:
		p.b.WriteByte('L')
	default:
		p.b.WriteByte('M')
		p.down = true
	}
	p.b.WriteString(strconv.FormatFloat(x, 'f', 1, 64) + " " + strconv.FormatFloat(y, 'f', 1, 64))
}

func actualPath(points []Point, origin time.Time, y func(float64) float64) string {
	var p path
	previous := math.Inf(-1)
	for _, pt := range points {
		m := pt.Start.Sub(origin).Minutes()
		if m < -pastMinutes || m > futureMinutes {
			continue
		}
		if m-previous > 1.5 { // a missing minute is a gap, not a slope
			p.down = false
		}
		previous = m
		p.to(xAt(m+.5), y(pt.Value))
	}
	return p.b.String()
}

func quantilePath(f *forecaster.Forecast, level int, y func(float64) float64) string {
	var p path
	for h := range f.Minute {
		p.to(xAt(float64(h)+.5), y(f.Minute[h][level]))
	}
	return p.b.String()
}

func band(f *forecaster.Forecast, lower, upper int, y func(float64) float64) string {
	var p path
	for h := range f.Minute {
		p.to(xAt(float64(h)+.5), y(f.Minute[h][upper]))
	}
	for h := forecaster.Horizon - 1; h >= 0; h-- {
		p.to(xAt(float64(h)+.5), y(f.Minute[h][lower]))
	}
	return p.b.String() + "Z"
}

func limitPath(limits []float64, y func(float64) float64) string {
	var p path
	for h, v := range limits {
		p.to(xAt(float64(h)), y(v))
		p.to(xAt(float64(h+1)), y(v))
	}
	return p.b.String()
}
