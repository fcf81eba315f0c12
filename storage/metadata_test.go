package storage

import (
	"testing"

	"github.com/forewarm/forewarm/features"
)

// TestSeriesHelpIsComplete: SeriesHelp describes every series that is written, and no other.
func TestSeriesHelpIsComplete(t *testing.T) {
	written := map[string]bool{ForecastSeries: true}
	for _, x := range features.Dimensions {
		written[x.Series] = true
	}
	for _, x := range shapeColumns {
		written[x.series] = true
	}
	for _, x := range latencyColumns {
		written[x.series] = true
	}
	for _, x := range poolColumns {
		written[x.series] = true
	}
	for _, x := range resourceColumns {
		written[x.series] = true
	}
	help := SeriesHelp()
	for name := range written {
		if help[name] == "" {
			t.Errorf("%s is written, but not described", name)
		}
	}
	for name := range help {
		if !written[name] {
			t.Errorf("%s is described, but not written", name)
		}
	}
}
