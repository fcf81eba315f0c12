package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The streams of what Forewarm publishes.
const (
	SignalsStream   = "FOREWARM_SIGNALS"   // pre-scale events and alerts
	ForecastsStream = "FOREWARM_FORECASTS" // the latest forecast of each class
)

// EnsureTelemetry makes the telemetry stream, or finds the one that holds its subjects already, whatever its name.
func EnsureTelemetry(ctx context.Context, js jetstream.JetStream, c Config) (jetstream.Stream, error) {
	subjects := []string{c.Inner() + ".telemetry.>", c.Inner() + ".prescale.ack.>"}
	for _, s := range c.Sources {
		if !c.relays(s) {
			subjects = append(subjects, s.Subject)
		}
	}
	return ensure(ctx, js, jetstream.StreamConfig{
		Name: c.Telemetry(), Description: "Forewarm: what LLM fleets report",
		Subjects: subjects,
		MaxAge:   c.Stream.MaxAge, MaxBytes: c.Stream.MaxBytes, Replicas: c.Stream.Replicas,
		Duplicates: min(10*time.Minute, c.Stream.MaxAge),
	})
}

// EnsureSignals makes or finds the stream of pre-scale events and alerts, a thousand for each pool.
func EnsureSignals(ctx context.Context, js jetstream.JetStream, c Config) (jetstream.Stream, error) {
	return ensure(ctx, js, jetstream.StreamConfig{
		Name: SignalsStream, Description: "Forewarm: pre-scale events and alerts",
		Subjects:          []string{c.Prefix + ".prescale.*", c.Prefix + ".alert.*"},
		MaxMsgsPerSubject: 1000, MaxAge: 30 * 24 * time.Hour, Replicas: c.Stream.Replicas, Duplicates: time.Hour,
	})
}

// The log of decisions and what goes with it; a partition adds its number to the names.
const (
	DecisionsStream  = "FOREWARM_DECISIONS"  // decisions and notifications
	StateBucket      = "FOREWARM_STATE"      // snapshots, in an object store
	DeliveriesBucket = "FOREWARM_DELIVERIES" // newest notice that each sink accepted, in a key-value store
)

// EnsureDecisions makes or finds the stream of decisions and notifications.
func EnsureDecisions(ctx context.Context, js jetstream.JetStream, c Config) (jetstream.Stream, error) {
	s, err := ensure(ctx, js, jetstream.StreamConfig{
		Name: c.Decisions(), Description: "Forewarm: decisions, the state that they leave, and notifications",
		Subjects: []string{c.Inner() + ".decision.>", c.Inner() + ".notice.>"}, MaxAge: c.Kept.MaxAge, MaxBytes: c.Kept.MaxBytes, Replicas: c.Stream.Replicas,
		AllowAtomicPublish: true, AllowMsgTTL: true,
	})
	if err == nil && !s.CachedInfo().Config.AllowAtomicPublish { // an older server ignores what it does not know
		return nil, fmt.Errorf("nats.url: stream %s takes no atomic batches (allow_atomic); the server, version %s, has to be nats-server 2.12 or later", c.Decisions(), js.Conn().ConnectedServerVersion())
	}
	return s, err
}

// EnsureState makes or finds the bucket of snapshots.
func EnsureState(ctx context.Context, js jetstream.JetStream, c Config) (jetstream.ObjectStore, error) {
	name := c.State()
	bucket, err := js.ObjectStore(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: name, Description: "Forewarm: snapshots of the state", Replicas: c.Stream.Replicas})
	}
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w; let this user use it, or make it with nats object add %s", name, err, name)
	}
	return bucket, nil
}

// EnsureDeliveries makes or finds the bucket with the newest notice that each sink accepted; an entry stays for a week.
func EnsureDeliveries(ctx context.Context, js jetstream.JetStream, c Config) (jetstream.KeyValue, error) {
	name := c.Deliveries()
	bucket, err := js.KeyValue(ctx, name)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: name, Description: "Forewarm: newest notice that each sink accepted", TTL: 7 * 24 * time.Hour, Replicas: c.Stream.Replicas})
	}
	if err != nil {
		return nil, fmt.Errorf("key-value store %s: %w; let this user use it, or make it with nats kv add %s", name, err, name)
	}
	return bucket, nil
}

// EnsureForecasts makes or finds the stream that keeps the latest forecast of each class.
func EnsureForecasts(ctx context.Context, js jetstream.JetStream, c Config) (jetstream.Stream, error) {
	return ensure(ctx, js, jetstream.StreamConfig{
		Name: ForecastsStream, Description: "Forewarm: the latest forecasts",
		Subjects: []string{c.Prefix + ".forecast.>"}, MaxMsgsPerSubject: 1, Replicas: c.Stream.Replicas,
	})
}

// madeBy marks the streams that Forewarm made, which alone it may change.
const madeBy = "forewarm_made"

// ensure makes the stream that want describes. If it is there and ours, its limits follow want; if it is a user's, it
// is used as it is, provided that it holds the subjects of want.
func ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	want.Storage, want.Retention, want.Discard = jetstream.FileStorage, jetstream.LimitsPolicy, jetstream.DiscardOld
	want.Metadata = map[string]string{madeBy: "1"}
	stream, err := find(ctx, js, want)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		stream, err = js.CreateStream(ctx, want)
	case err == nil && stream.CachedInfo().Config.Metadata[madeBy] != "":
		want.Name = stream.CachedInfo().Config.Name
		stream, err = js.UpdateStream(ctx, want)
	case err == nil:
		err = adoptable(stream.CachedInfo().Config, want.Subjects)
	}
	if err != nil {
		return nil, unmade(ctx, js, want, err)
	}
	return stream, nil
}

// unmade explains why the stream that want describes could not be made, and what to do.
func unmade(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig, err error) error {
	var refused *jetstream.APIError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode == subjectsOverlap:
		err = taken(ctx, js, want)
	case errors.As(err, &refused) && refused.ErrorCode == noRoom:
		key := "nats.stream.max_bytes"
		if want.AllowAtomicPublish {
			key = "nats.decisions.max_bytes"
		}
		err = fmt.Errorf("%w: the server, or this account on it, has not the %d bytes that %s asks for; lower it, or raise max_file_store there", err, want.MaxBytes, key)
	case errors.As(err, &refused) && (refused.ErrorCode == noCluster || refused.ErrorCode == noPeers):
		err = fmt.Errorf("%w: nats.stream.replicas asks for %d copies; lower it, or use a cluster with as many servers", err, want.Replicas)
	case errors.As(err, &refused) && strings.Contains(refused.Description, syscall.ENOSPC.Error()):
		err = fmt.Errorf("%w; make room on the disk of the NATS server", err)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		err = fmt.Errorf("%w; enable JetStream on the server and for this account", err)
	}
	return fmt.Errorf("stream %s: %w", want.Name, Denied(js.Conn(), err))
}

// noRoom is the server's code for a stream that asks for more than it may.
const noRoom = 10047

// noCluster and noPeers are the server's codes for more copies than there are servers.
const (
	noCluster = 10074
	noPeers   = 10005
)

// subjectsOverlap is the server's code for a stream with subjects that another one has.
const subjectsOverlap = 10065

// taken names the stream that has a subject of want, and what to do.
func taken(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	for _, subject := range want.Subjects {
		name, err := js.StreamNameBySubject(ctx, subject)
		if err != nil || name == want.Name {
			continue
		}
		return fmt.Errorf("%s belongs to the stream %s, and a message is stored by one stream; take the subject out there (nats stream edit %s --subjects …), or add %s there and name that stream",
			subject, name, name, strings.Join(slices.DeleteFunc(slices.Clone(want.Subjects), func(s string) bool { return s == subject }), ","))
	}
	return errors.New("another stream has one of its subjects; nats stream ls says which")
}

// find gives the stream of that name, or else the one that holds its first subject.
func find(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, want.Name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return stream, err
	}
	name, err := js.StreamNameBySubject(ctx, want.Subjects[0])
	if err != nil {
		return nil, err
	}
	return js.Stream(ctx, name)
}

// adoptable explains why a user's stream cannot hold subjects; nil if it can.
func adoptable(have jetstream.StreamConfig, subjects []string) error {
	for _, want := range subjects {
		covered := false
		for _, subject := range have.Subjects {
			covered = covered || covers(subject, want)
		}
		if !covered {
			return fmt.Errorf("the stream %s, which Forewarm did not make and will not change, has no subject that covers %s; add it (nats stream edit %s --subjects %s), or name another stream",
				have.Name, want, have.Name, strings.Join(append(have.Subjects, want), ","))
		}
	}
	if have.Retention != jetstream.LimitsPolicy {
		return fmt.Errorf("the stream %s drops messages by %s retention, so that it cannot be read again after a restart; name a stream with limits retention", have.Name, have.Retention)
	}
	return nil
}
