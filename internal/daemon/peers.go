package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
)

const (
	peerEvery = 5 * time.Second
	// peerLife is how long a peer may be silent, and peerShownFor how long it is listed after its newest message.
	peerLife     = 3 * peerEvery
	peerShownFor = time.Hour
	maxPeers     = 32
)

// peer is another daemon on the same log, as its newest message says.
type peer struct {
	Instance string    `json:"instance"`
	Version  string    `json:"version"`
	Tick     time.Time `json:"tick"` // its newest tick

	seenAt time.Time
}

// exchangePeers sends and receives peer messages until ctx ends. /readyz shows the peers; they affect no decision.
func (d *Daemon) exchangePeers(ctx context.Context) error {
	subscription, err := d.conn.Subscribe(ingest.PeerSubject(d.cfg.NATS.Inner(), "*"), func(m *nats.Msg) {
		p := peer{seenAt: time.Now()}
		if json.Unmarshal(m.Data, &p) == nil && p.Instance != "" && p.Instance != d.instance {
			d.notePeer(p)
		}
	})
	if err != nil {
		d.log.Warn("other daemons on this log cannot be seen", zap.Error(err))
		return nil
	}
	defer func() { _ = subscription.Unsubscribe() }()
	ticker := time.NewTicker(peerEvery)
	defer ticker.Stop()
	for {
		d.sendPeer()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (d *Daemon) sendPeer() {
	data, err := json.Marshal(peer{Instance: d.instance, Version: d.version, Tick: locked(d, &d.status.Tick)})
	if err == nil && d.conn.IsConnected() {
		err = d.conn.Publish(ingest.PeerSubject(d.cfg.NATS.Inner(), ingest.EscapeToken(d.instance)), data)
	}
	if err != nil {
		d.log.Debug("the message to other daemons on this log was not sent", zap.Error(err))
	}
}

// notePeer records a peer's message.
func (d *Daemon) notePeer(p peer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.peers, func(_ string, x peer) bool { return p.seenAt.Sub(x.seenAt) > peerShownFor })
	before, known := d.peers[p.Instance]
	if !known && len(d.peers) >= maxPeers {
		return
	}
	if !known || p.seenAt.Sub(before.seenAt) > peerLife || before.Version != p.Version {
		d.log.Info("another daemon shares the log", zap.String("instance", p.Instance), zap.String("version", p.Version))
	}
	d.peers[p.Instance] = p
}

// peersText lists the daemons that share the log. The caller holds mu.
func (d *Daemon) peersText(now time.Time) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.peers)) {
		p := d.peers[name]
		tick := "no tick yet"
		if !p.Tick.IsZero() {
			tick = "tick " + p.Tick.UTC().Format(time.RFC3339)
		}
		text := fmt.Sprintf("%s (version %s, %s)", printable(name), printable(p.Version), tick)
		if age := now.Sub(p.seenAt); age > peerLife {
			text += fmt.Sprintf(" not heard for %s", age.Round(time.Second))
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "no other daemon on this log is seen"
	}
	return strings.Join(out, ", ")
}
