package storage

import (
	"testing"

	"github.com/prometheus/common/model"

	"github.com/forewarm/forewarm/features"
)

// Every series that is written is described, and nothing else.
func TestSeriesHelpIsComplete(t *testing.T) {
	written := map[string]bool{}
	for _, kind := range []groupKind{windowGroup, forecastGroup, poolGroup, resourceGroup, accountGroup, accountGroup + 1, accountGroup + 2, accountGroup + 3} {
		k := groupKey{kind: kind, Key: features.Key{Pool: "p", Class: "c"}, name: features.DimKV}
		for i := range k.size() {
			written[k.labels(i).Get(model.MetricNameLabel)] = true
		}
	}
	help := SeriesHelp()
	for name := range written {
		if help[name] == "" {
			t.Errorf("%s is written and not described", name)
		}
	}
	for name := range help {
		if !written[name] {
			t.Errorf("%s is described and not written", name)
		}
	}
}
