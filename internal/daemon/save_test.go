package daemon

import (
	"testing"
	"time"

	"github.com/forewarm/forewarm/config"
)

// TestProgressPause: a daemon that lags saves snapshots. At first a pause is as long as the daemon has run, so that a
// killed daemon keeps about half of its work. Later, snapshots use at most 5 % of the time.
func TestProgressPause(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ ran, busy, want time.Duration }{
		{ran: 40 * time.Millisecond, busy: 10 * time.Millisecond, want: 40 * time.Millisecond},
		{ran: time.Minute, busy: 10 * time.Millisecond, want: time.Second},
		{ran: 10 * time.Second, busy: 2 * time.Second, want: 10 * time.Second},
		{ran: time.Hour, busy: 2 * time.Second, want: 38 * time.Second},
	} {
		d := &Daemon{cfg: &config.Config{}, restoredAt: time.Now(), failedWrites: faults{}}
		ended := d.restoredAt.Add(test.ran)
		d.endSaving(ended, test.busy, 1, nil)
		if got := d.saver.next.Sub(ended); got != test.want {
			t.Errorf("after %s, of which a snapshot took %s, the pause is %s, want %s", test.ran, test.busy, got, test.want)
		}
	}
}
