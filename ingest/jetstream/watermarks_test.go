package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// record runs a ticker for the duration d, from midnight plus offset. During an outage it cannot publish. It returns a
// line for each published watermark: its time, and when it was published, both since midnight.
func record(t *testing.T, offset, lateness, d time.Duration, outage func(since time.Duration) bool) []string {
	t.Helper()
	var got, ids []string
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(24 * time.Hour) // the clock of a bubble starts at the earliest time that records may have
		midnight := time.Now()
		time.Sleep(offset)
		ticker := NewTicker(nil, "f", lateness, func(error) {}, func(context.Context, time.Time) bool { return false })
		ticker.publish = func(_ context.Context, m *nats.Msg, id string) error {
			if m.Subject != "f.telemetry.watermark._" {
				t.Errorf("subject %s", m.Subject)
			}
			if outage(time.Since(midnight)) {
				return errors.New("no server")
			}
			var b ingest.Batch
			codec.Decode(codec.Meta{Kind: codec.KindWatermark, ContentType: m.Header.Get("Content-Type")}, m.Data, ingest.DefaultLimits(), &b)
			if b.Watermark == nil || b.Watermark.Pool != "" {
				t.Fatalf("%x: %+v", m.Data, b)
			}
			at := b.Watermark.At
			if id != fmt.Sprintf("watermark-%d", at.Unix()) || slices.Contains(ids, id) {
				t.Errorf("id %s of %s", id, at)
			}
			ids = append(ids, id)
			got = append(got, fmt.Sprintf("%s at %s", at.Sub(midnight.UTC()), time.Since(midnight)))
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		if err := ticker.Run(ctx, true); err != nil {
			t.Error(err)
		}
	})
	return got
}

func TestTicker(t *testing.T) {
	never := func(time.Duration) bool { return false }
	between := func(from, to time.Duration) func(time.Duration) bool {
		return func(since time.Duration) bool { return from <= since && since < to }
	}
	for name, tc := range map[string]struct {
		offset, lateness, d time.Duration
		outage              func(time.Duration) bool
		want                []string
	}{
		"each minute":             {20 * time.Second, 10 * time.Second, 3 * time.Minute, never, []string{"0s at 20s", "1m0s at 1m10s", "2m0s at 2m10s", "3m0s at 3m10s"}},
		"before the lateness":     {5 * time.Second, 10 * time.Second, time.Minute, never, []string{"-1m0s at 5s", "0s at 10s"}},
		"without lateness":        {30 * time.Second, 0, 2 * time.Minute, never, []string{"0s at 30s", "1m0s at 1m0s", "2m0s at 2m0s"}},
		"lateness beyond minutes": {301 * time.Second, 150 * time.Second, 2 * time.Minute, never, []string{"2m0s at 5m1s", "3m0s at 5m30s", "4m0s at 6m30s"}},
		"short outage":            {0, 10 * time.Second, 150 * time.Second, between(time.Minute, 75*time.Second), []string{"-1m0s at 0s", "0s at 10s", "1m0s at 1m15s", "2m0s at 2m10s"}},
		"long outage":             {20 * time.Second, 10 * time.Second, 5 * time.Minute, between(time.Minute, 200*time.Second), []string{"0s at 20s", "3m0s at 3m20s", "4m0s at 4m10s", "5m0s at 5m10s"}},
	} {
		t.Run(name, func(t *testing.T) {
			if d := cmp.Diff(tc.want, record(t, tc.offset, tc.lateness, tc.d, tc.outage)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestTickerClockIsSet sets the server's clock ten minutes ahead, and later back. No minute gets a second watermark,
// and none gets one before it ends.
func TestTickerClockIsSet(t *testing.T) {
	var got []string
	synctest.Test(t, func(t *testing.T) {
		midnight := time.Now()
		ahead := 20 * time.Second
		ticker := NewTicker(nil, "f", 10*time.Second, func(error) {}, func(context.Context, time.Time) bool { return false })
		ticker.Sync(time.Now().Add(ahead))
		ticker.publish = func(_ context.Context, m *nats.Msg, _ string) error {
			var b ingest.Batch
			codec.Decode(codec.Meta{Kind: codec.KindWatermark, ContentType: m.Header.Get("Content-Type")}, m.Data, ingest.DefaultLimits(), &b)
			got = append(got, fmt.Sprintf("%s at %s", b.Watermark.At.Sub(midnight.UTC()), time.Since(midnight).Truncate(time.Second)))
			return nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 17*time.Minute)
		defer cancel()
		go func() {
			time.Sleep(time.Second / 2) // between two checks of the ticker
			for ctx.Err() == nil {
				switch time.Since(midnight).Truncate(time.Second) {
				case 2 * time.Minute:
					ahead += 10 * time.Minute
				case 4 * time.Minute:
					ahead -= 10 * time.Minute
				}
				ticker.Sync(time.Now().Add(ahead))
				time.Sleep(time.Second)
			}
		}()
		if err := ticker.Run(ctx, true); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second) // the other goroutine ends
	})
	want := []string{"0s at 0s", "1m0s at 50s", "2m0s at 1m50s", "3m0s at 2m1s", "12m0s at 2m1s", "13m0s at 2m50s", "14m0s at 3m50s", "15m0s at 14m50s", "16m0s at 15m50s", "17m0s at 16m50s"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
