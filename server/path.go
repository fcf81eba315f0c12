package server

import (
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/internal/draw"
)

func actualPath(points []Point, origin time.Time, y func(float64) float64) string {
	var p draw.Path
	previous := math.Inf(-1)
	for _, pt := range points {
		m := pt.Start.Sub(origin).Minutes()
		if m < -pastMinutes || m > futureMinutes {
			continue
		}
		if m-previous > 1.5 { // a missing minute is a gap, not a slope
			p.Lift()
		}
		previous = m
		p.To(xAt(m+.5), y(pt.Value))
	}
	return p.String()
}

func quantilePath(f *forecaster.Forecast, level int, y func(float64) float64) string {
	var p draw.Path
	for h := range f.Minute {
		p.To(xAt(float64(h)+.5), y(f.Minute[h][level]))
	}
	return p.String()
}

func band(f *forecaster.Forecast, lower, upper int, y func(float64) float64) string {
	var p draw.Path
	for h := range f.Minute {
		p.To(xAt(float64(h)+.5), y(f.Minute[h][upper]))
	}
	for h := forecaster.Horizon - 1; h >= 0; h-- {
		p.To(xAt(float64(h)+.5), y(f.Minute[h][lower]))
	}
	p.Close()
	return p.String()
}

func limitPath(limits []float64, y func(float64) float64) string {
	var p draw.Path
	for h, v := range limits {
		p.To(xAt(float64(h)), y(v))
		p.To(xAt(float64(h+1)), y(v))
	}
	return p.String()
}
