package daemon

import (
	"testing"

	"github.com/forewarm/forewarm/alerting"
)

// TestSelfWatchWindow: only counts of the last selfWindow checks are summed.
func TestSelfWatchWindow(t *testing.T) {
	w := &selfWatch{alerts: new(alerting.AlertTracker)}
	for check := range 40 {
		now := alerting.Vitals{Records: uint64(10 * check), Lost: uint64(min(check, 5)), Refused: map[string]uint64{"bad_time": uint64(check)}}
		v := w.count(now)
		if check < selfWindow {
			continue
		}
		if v.Records != 10*selfWindow || v.Refused["bad_time"] != selfWindow || check >= 20 && v.Lost != 0 || len(w.intake) > selfWindow+1 {
			t.Errorf("check %d: %+v, %d are kept", check, v, len(w.intake))
		}
	}
}
