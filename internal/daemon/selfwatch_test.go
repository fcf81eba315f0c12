package daemon

import (
	"testing"

	"github.com/forewarm/forewarm/alerting"
)

// TestSelfWatchWindow: only what came within the window counts.
func TestSelfWatchWindow(t *testing.T) {
	w := newSelfWatch()
	for look := range 40 {
		now := alerting.Vitals{Records: uint64(10 * look), Lost: uint64(min(look, 5)), Refused: map[string]uint64{"bad_time": uint64(look)}}
		v := w.count(now)
		if look < selfWindow {
			continue
		}
		if v.Records != 10*selfWindow || v.Refused["bad_time"] != selfWindow || look >= 20 && v.Lost != 0 || len(w.intake) > selfWindow+1 {
			t.Errorf("look %d: %+v, %d remembered", look, v, len(w.intake))
		}
	}
}
