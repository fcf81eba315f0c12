package jetstream

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestStreamsFollowConfig: streams are created once. A changed configuration changes the stream, and keeps its
// messages.
func TestStreamsFollowConfig(t *testing.T) {
	ctx := testContext(t)
	c, js := testServer(t)
	for range 2 {
		if _, err := Ensure(ctx, js, c); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{c.Telemetry(), c.Signals(), c.forecasts(), c.Decisions()} {
			stream := must(js.Stream(ctx, name))
			if got := stream.CachedInfo().Config; got.Storage != jetstream.FileStorage || got.Retention != jetstream.LimitsPolicy {
				t.Errorf("%s: made %+v", name, got)
			}
		}
	}
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(1))
	c.Stream.MaxAge = time.Hour
	got := telemetry(t, js, c).CachedInfo()
	if got.Config.MaxAge != time.Hour || got.State.Msgs != 1 {
		t.Errorf("changed: max_age %s with %d messages, want 1h with 1", got.Config.MaxAge, got.State.Msgs)
	}
}

// TestPrefixesShareNothing: two installations on one account have streams of their own. A name that both state is an
// error for the second one.
func TestPrefixesShareNothing(t *testing.T) {
	c, js := testServer(t)
	other := c
	other.Prefix = "forewarm.b"
	for _, x := range []Config{c, other} {
		telemetry(t, js, x)
	}
	for _, x := range []struct {
		Config
		name string
	}{{c, "FOREWARM_TELEMETRY"}, {other, "FOREWARM_B_TELEMETRY"}} {
		subjects := must(js.Stream(testContext(t), x.name)).CachedInfo().Config.Subjects
		if subjects[0] != x.Prefix+".telemetry.>" {
			t.Errorf("%s has the subjects %v", x.name, subjects)
		}
	}
	other.Prefix, other.Stream.Name = "c", c.Telemetry()
	_, err := Ensure(testContext(t), js, other)
	wantError(t, err, "FOREWARM_TELEMETRY", "this installation did not make", "c.telemetry.>", "name another stream")
}

// TestDecisionsNeedAtomicBatches: a stream of decisions without atomic batches is refused. An older server creates such
// a stream.
func TestDecisionsNeedAtomicBatches(t *testing.T) {
	ctx := testContext(t)
	c, js := testServer(t)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: c.Decisions(), Subjects: []string{"forewarm.decision.>", "forewarm.notice.>"}}); err != nil {
		t.Fatal(err)
	}
	_, err := Ensure(ctx, js, c)
	wantError(t, err, c.Decisions(), "allow_atomic", "2.12")
}

// TestStreamsOfUsers: a stream of the user with the right subjects is used, and not changed.
func TestStreamsOfUsers(t *testing.T) {
	for name, tc := range map[string]struct {
		stream jetstream.StreamConfig
		want   []string // parts of the error; none if the stream is used
	}{
		"same name":    {jetstream.StreamConfig{Name: "FOREWARM_TELEMETRY", Subjects: []string{"forewarm.telemetry.>", "forewarm.prescale.ack.>"}}, nil},
		"other name":   {jetstream.StreamConfig{Name: "MINE", Subjects: []string{"forewarm.>"}}, nil},
		"half covered": {jetstream.StreamConfig{Name: "MINE", Subjects: []string{"forewarm.telemetry.>"}}, []string{"MINE", "forewarm.prescale.ack.>", "nats stream edit"}},
		"part of it":   {jetstream.StreamConfig{Name: "MINE", Subjects: []string{"forewarm.telemetry.request.>"}}, []string{"MINE", "covers forewarm.telemetry.>"}},
		"work queue": {
			jetstream.StreamConfig{Name: "MINE", Subjects: []string{"forewarm.>"}, Retention: jetstream.WorkQueuePolicy},
			[]string{"MINE", "WorkQueue", "limits retention"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			c, js := testServer(t)
			tc.stream.Description = "a user's"
			tc.stream.AllowAtomicPublish = true // "forewarm.>" covers decisions, too
			if _, err := js.CreateStream(ctx, tc.stream); err != nil {
				t.Fatal(err)
			}
			got, err := Ensure(ctx, js, c)
			if len(tc.want) > 0 {
				wantError(t, err, tc.want...)
			} else if err != nil {
				t.Fatal(err)
			} else if name := got.Telemetry.CachedInfo().Config.Name; name != tc.stream.Name {
				t.Errorf("uses %s, want %s", name, tc.stream.Name)
			}
			after := must(js.Stream(ctx, tc.stream.Name))
			if c := after.CachedInfo().Config; c.Description != "a user's" || c.MaxAge != 0 || len(c.Subjects) != len(tc.stream.Subjects) {
				t.Errorf("changed to %+v", c)
			}
		})
	}
}

// TestTooManyCopies: more copies than servers are refused, and the error names the key.
func TestTooManyCopies(t *testing.T) {
	c, js := testServer(t)
	c.Stream.Replicas = 3
	if _, err := Ensure(testContext(t), js, c); err == nil || !strings.Contains(err.Error(), "in 3 copies; lower nats.stream.max_bytes, nats.decisions.max_bytes or nats.stream.replicas") {
		t.Error(err)
	}
}
