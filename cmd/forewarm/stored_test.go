package main

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/storage/stream"
)

// readStored reads the newest snapshot, the log and the pre-scale events of a stopped daemon, from its NATS server or
// from the files of its embedded server. No event may be stored twice.
func readStored(t *testing.T, path string) (s storedState) {
	t.Helper()
	cfg := must(config.Load(path))
	c := cfg.NATS
	var embedded *jetstream.Embedded
	if c.URL == "" {
		c.Embedded.Listen, c.Embedded.StoreDir = "none", cmp.Or(c.Embedded.StoreDir, filepath.Join(cfg.Storage.Dir, "nats"))
		embedded = must(jetstream.StartEmbedded(t.Context(), c, zap.NewNop()))
		defer embedded.Shutdown()
	}
	conn := must(jetstream.Connect(c, embedded))
	defer conn.Close()
	js := must(natsjs.New(conn))
	bucket := must(js.ObjectStore(t.Context(), c.State()))
	states := must(stream.NewStates(bucket, "").List(t.Context()))
	if len(states) > 0 {
		digest := must(bucket.GetInfo(t.Context(), states[0].Name)).Digest
		s.Snapshot = fmt.Sprintf("sequence %d of stream %s, state %s", states[0].Sequence, states[0].Stream, digest)
	}
	var last time.Time
	for _, x := range must(stream.NewReader(js, c.Decisions(), c.Prefix).Newest(t.Context())) {
		if x.Decision.Tick.After(last) {
			last = x.Decision.Tick
		}
	}
	if !last.IsZero() {
		s.Decisions = fmt.Sprintf("up to %s, sha256 %x", last.UTC().Format(time.RFC3339), decisionsDigest(t, js))
	}
	s.Newest = map[string]string{}
	seen := map[string]bool{}
	for _, m := range storedMessages(t, js, "FOREWARM_SIGNALS") {
		if !strings.HasPrefix(m.Subject, "forewarm.prescale.") {
			continue
		}
		id := m.Header.Get(natsjs.MsgIDHeader)
		if seen[id] {
			t.Errorf("event %s is in the stream twice", id)
		}
		seen[id], s.Newest[m.Subject] = true, string(m.Data)
	}
	return s
}

// decisionsDigest returns the SHA-256 of all decisions and their states, in the order of the log.
func decisionsDigest(t *testing.T, js natsjs.JetStream) [sha256.Size]byte {
	t.Helper()
	h := sha256.New()
	for _, m := range storedMessages(t, js, "FOREWARM_DECISIONS") {
		if strings.HasPrefix(m.Subject, "forewarm.decision.") {
			h.Write(m.Data)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}
