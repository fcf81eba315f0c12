package stream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// State describes a snapshot: the state after message Sequence of a stream.
type State struct {
	Name     string // of the object
	Stream   string
	Created  time.Time // of the stream; a recreated stream has other messages
	Sequence uint64
	Version  string // of the program
	Bytes    int64
	At       time.Time // storage time by the server's clock
}

// States are the snapshots in a bucket: two objects per daemon on the log, written in turn. A bucket replaces an
// object's description before the new content is complete, so a full bucket loses the object being written. States is
// for one goroutine.
type States struct {
	bucket   jetstream.ObjectStore
	instance string
}

// NewStates returns a daemon's snapshots in a bucket.
func NewStates(bucket jetstream.ObjectStore, instance string) *States {
	return &States{bucket, instance}
}

const (
	statePrefix = "state/"
	// forgetAfter is the age, relative to our snapshot, at which another daemon's is removed.
	forgetAfter = time.Hour
)

// List returns all snapshots, the most advanced first. Its bound is short: a stop must not wait for a silent server.
func (s *States) List(ctx context.Context) (all []State, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	infos, err := s.bucket.List(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, fmt.Errorf("bucket of states: %w", err)
	}
	for _, i := range infos {
		if x, ok := stateOf(i); ok {
			all = append(all, x)
		}
	}
	advancedFirst(all)
	return all, nil
}

// advancedFirst sorts by sequence within each stream. The stream with the newest snapshot is first.
func advancedFirst(all []State) {
	newest := map[time.Time]int64{} // by creation of the stream
	for _, x := range all {
		newest[x.Created] = max(newest[x.Created], x.At.UnixNano())
	}
	slices.SortFunc(all, func(a, b State) int {
		return cmp.Or(cmp.Compare(newest[b.Created], newest[a.Created]), b.Created.Compare(a.Created),
			cmp.Compare(b.Sequence, a.Sequence), b.At.Compare(a.At))
	})
}

func stateOf(i *jetstream.ObjectInfo) (x State, ok bool) {
	if !strings.HasPrefix(i.Name, statePrefix) || i.Deleted {
		return x, false
	}
	x = State{Name: i.Name, Stream: i.Metadata["stream"], Version: i.Metadata["version"], Bytes: int64(i.Size), At: i.ModTime}
	x.Sequence, _ = strconv.ParseUint(i.Metadata["sequence"], 10, 64)
	created, _ := strconv.ParseInt(i.Metadata["created"], 10, 64)
	x.Created = time.Unix(0, created).UTC()
	return x, true
}

// Open returns a reader of a state. At the end it returns an error if the content is not what was stored.
func (s *States) Open(ctx context.Context, x State) (io.ReadCloser, error) {
	object, err := s.bucket.Get(ctx, x.Name)
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", x.Name, err)
	}
	return object, nil
}

func (s *States) name(turn int) string { return fmt.Sprintf("%s%s/%d", statePrefix, s.instance, turn) }

func (s *States) owns(x *State) bool { return x.Name == s.name(0) || x.Name == s.name(1) }

// Save replaces this daemon's older snapshot, and removes those of ended daemons. An error leaves the newer one.
func (s *States) Save(ctx context.Context, x State, content io.Reader) (State, error) {
	all, err := s.List(ctx)
	if err != nil {
		return State{}, err
	}
	name := s.name(0)
	if i := slices.IndexFunc(all, func(x State) bool { return s.owns(&x) }); i >= 0 && all[i].Name == name {
		name = s.name(1)
	}
	info, err := s.bucket.Put(ctx, jetstream.ObjectMeta{
		Name: name, Description: "Forewarm: state of windows and forecasts",
		Metadata: map[string]string{
			"stream": x.Stream, "created": strconv.FormatInt(x.Created.UnixNano(), 10), "version": x.Version,
			"sequence": strconv.FormatUint(x.Sequence, 10),
		},
	}, content)
	if err != nil {
		return State{}, errors.Join(fmt.Errorf("snapshot: %w", err), s.remove(ctx, name))
	}
	saved, _ := stateOf(info)
	for i := range all {
		if x := &all[i]; !s.owns(x) && saved.At.Sub(x.At) > forgetAfter {
			err = errors.Join(err, s.remove(ctx, x.Name))
		}
	}
	return saved, err
}

func (s *States) remove(ctx context.Context, name string) error {
	if err := s.bucket.Delete(ctx, name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
		return fmt.Errorf("snapshot %s: %w", name, err)
	}
	return nil
}
