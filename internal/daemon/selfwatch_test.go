package daemon

import (
	"testing"
)

// TestSelfWatchWindow: only what came within the window counts.
func TestSelfWatchWindow(t *testing.T) {
	w := newSelfWatch()
	for look := range 40 {
		now := intake{records: uint64(10 * look), lost: uint64(min(look, 5)), refused: map[string]uint64{"bad_time": uint64(look)}}
		v, _ := w.count(now)
		if look < selfWindow {
			continue
		}
		if v.Records != 10*selfWindow || v.Refused["bad_time"] != selfWindow || look >= 20 && v.Lost != 0 || len(w.intake) > selfWindow+1 {
			t.Errorf("look %d: %+v, %d remembered", look, v, len(w.intake))
		}
	}
}
