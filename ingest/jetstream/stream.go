package jetstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// own is the name of a stream or bucket, such as FOREWARM_STATE: each prefix of subjects has its own.
func (c *Config) own(name string) string {
	return strings.ToUpper(unsafe.ReplaceAllString(c.Prefix, "_")) + "_" + name
}

var unsafe = regexp.MustCompile(`[^0-9A-Za-z_-]`)

// Telemetry is the name of the stream of telemetry.
func (c *Config) Telemetry() string { return cmp.Or(c.Stream.Name, c.own("TELEMETRY")) }

// Signals is the name of the stream of pre-scale events and alerts, a thousand for each pool.
func (c *Config) Signals() string { return c.own("SIGNALS") }

// forecasts is the name of the stream with the latest forecast of each class.
func (c *Config) forecasts() string { return c.own("FORECASTS") }

// Decisions is the name of the stream of decisions and notices.
func (c *Config) Decisions() string { return c.own("DECISIONS") }

// State is the name of the object store of snapshots.
func (c *Config) State() string { return c.own("STATE") }

// deliveries is the name of the key-value store with the newest notice that each sink accepted, for a week.
func (c *Config) deliveries() string { return c.own("DELIVERIES") }

// streams are the streams of messages, that of telemetry first.
func (c *Config) streams() []jetstream.StreamConfig {
	telemetry := []string{c.Prefix + ".telemetry.>", c.Prefix + ".prescale.ack.>"}
	for _, s := range c.Sources {
		if !s.isRelayed() {
			telemetry = append(telemetry, s.Subject)
		}
	}
	return []jetstream.StreamConfig{{
		Name: c.Telemetry(), Description: "Forewarm: what LLM fleets report",
		Subjects: telemetry, MaxAge: c.Stream.MaxAge, MaxBytes: c.Stream.MaxBytes,
		Duplicates: min(10*time.Minute, c.Stream.MaxAge),
	}, {
		Name: c.Signals(), Description: "Forewarm: pre-scale events and alerts",
		Subjects:          []string{c.Prefix + ".prescale.*", c.Prefix + ".alert.*"},
		MaxMsgsPerSubject: 1000, MaxAge: 30 * 24 * time.Hour, Duplicates: time.Hour,
	}, {
		Name: c.forecasts(), Description: "Forewarm: the latest forecasts",
		Subjects: []string{c.Prefix + ".forecast.>"}, MaxMsgsPerSubject: 1,
	}, {
		Name: c.Decisions(), Description: "Forewarm: decisions, the state that they leave, and notifications",
		Subjects: []string{c.Prefix + ".decision.>", c.Prefix + ".notice.>"}, MaxAge: c.Kept.MaxAge, MaxBytes: c.Kept.MaxBytes,
		AllowAtomicPublish: true, AllowMsgTTL: true,
	}}
}

// Stores is what a daemon keeps in JetStream.
type Stores struct {
	Telemetry  jetstream.Stream
	State      jetstream.ObjectStore // snapshots
	Deliveries jetstream.KeyValue    // newest notice that each sink accepted
}

// Join makes or finds all streams and buckets.
func (c *Config) Join(ctx context.Context, conn *nats.Conn) (js jetstream.JetStream, s Stores, err error) {
	if js, err = jetstream.New(conn); err == nil {
		s, err = Ensure(ctx, js, *c)
	}
	return js, s, err
}

// Ensure makes all streams and buckets, or finds them: a stream by its name, or as the one that holds its subjects already.
func Ensure(ctx context.Context, js jetstream.JetStream, c Config) (s Stores, err error) {
	for _, want := range c.streams() {
		made, err := ensure(ctx, js, c, want)
		if err != nil {
			return s, err
		}
		if want.AllowAtomicPublish && !made.CachedInfo().Config.AllowAtomicPublish { // an older server ignores what it does not know
			return s, fmt.Errorf("nats.url: stream %s takes no atomic batches (allow_atomic); the server, version %s, has to be nats-server 2.12 or later",
				want.Name, js.Conn().ConnectedServerVersion())
		}
		if s.Telemetry == nil {
			s.Telemetry = made
		}
	}
	name := c.State()
	if s.State, err = js.ObjectStore(ctx, name); errors.Is(err, jetstream.ErrBucketNotFound) {
		s.State, err = js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: name, Description: "Forewarm: snapshots of the state", Replicas: c.Stream.Replicas,
		})
	}
	if err != nil {
		return s, fmt.Errorf("object store %s: %w", name, Denied(js.Conn(), err))
	}
	name = c.deliveries()
	if s.Deliveries, err = js.KeyValue(ctx, name); errors.Is(err, jetstream.ErrBucketNotFound) {
		s.Deliveries, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: name, Description: "Forewarm: newest notice that each sink accepted", Replicas: c.Stream.Replicas,
			TTL: 7 * 24 * time.Hour,
		})
	}
	if err != nil {
		return s, fmt.Errorf("key-value store %s: %w", name, Denied(js.Conn(), err))
	}
	return s, nil
}

// madeBy marks the streams that Forewarm made, which alone it may change.
const madeBy = "forewarm_made"

// ensure makes the stream that want describes, or sets its limits. It does not change the stream of another owner that
// has these subjects.
func ensure(ctx context.Context, js jetstream.JetStream, c Config, want jetstream.StreamConfig) (jetstream.Stream, error) {
	want.Replicas = c.Stream.Replicas
	want.Storage, want.Retention, want.Discard = jetstream.FileStorage, jetstream.LimitsPolicy, jetstream.DiscardOld
	want.Metadata = map[string]string{madeBy: "1"}
	stream, err := find(ctx, js, want)
	if err == nil {
		have := stream.CachedInfo().Config
		if have.Metadata[madeBy] == "" || !slices.Contains(have.Subjects, want.Subjects[0]) {
			err = adoptable(have, want.Subjects)
		} else {
			want.Name = have.Name
			stream, err = js.UpdateStream(ctx, want)
		}
	} else if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = js.CreateStream(ctx, want)
	}
	if err != nil {
		return nil, unmade(js, want, err)
	}
	return stream, nil
}

// unmade explains why the stream that want describes could not be made, and what to do.
func unmade(js jetstream.JetStream, want jetstream.StreamConfig, err error) error {
	var code server.ErrorIdentifier
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
		code = server.ErrorIdentifier(refused.ErrorCode)
	}
	switch code {
	case server.JSStreamSubjectOverlapErr:
		err = fmt.Errorf("one of its subjects belongs to another stream (nats stream ls), and a message is stored by one stream; "+
			"take it out there, or add the others there and name that stream: %s", strings.Join(want.Subjects, ","))
	case server.JSStorageResourcesExceededErr, server.JSStreamReplicasNotSupportedErr, server.JSClusterNoPeersErrF:
		err = fmt.Errorf("%w: it asks for %d bytes in %d copies; lower nats.stream.max_bytes, nats.decisions.max_bytes or nats.stream.replicas, or let the servers and this account store more",
			err, want.MaxBytes, want.Replicas)
	}
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		err = fmt.Errorf("%w; enable JetStream on the server and for this account", err)
	}
	return fmt.Errorf("stream %s: %w", want.Name, Denied(js.Conn(), err))
}

// find gives the stream of that name, or else the one that holds its first subject, if it has any.
func find(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (jetstream.Stream, error) {
	stream, err := js.Stream(ctx, want.Name)
	if !errors.Is(err, jetstream.ErrStreamNotFound) || len(want.Subjects) == 0 {
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
		covers := func(subject string) bool { return server.SubjectMatchesFilter(want, subject) }
		if !slices.ContainsFunc(have.Subjects, covers) {
			return fmt.Errorf("the stream %s, which this installation did not make and will not change, has no subject that covers %s; add it (nats stream edit %s --subjects %s), or name another stream",
				have.Name, want, have.Name, strings.Join(append(have.Subjects, want), ","))
		}
	}
	if have.Retention != jetstream.LimitsPolicy {
		return fmt.Errorf("the stream %s drops messages by %s retention, so that it cannot be read again after a restart; name a stream with limits retention",
			have.Name, have.Retention)
	}
	return nil
}
