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
	// peerLife is how long a silent peer is kept, and maxPeers bounds the number of peers.
	peerLife = 3 * peerEvery
	maxPeers = 32
)

// peerMessage is sent to daemons on the same log.
type peerMessage struct {
	Instance string    `json:"instance"`
	Version  string    `json:"version"`
	Tick     time.Time `json:"tick"` // its newest tick
}

// peer is another daemon on the same log.
type peer struct {
	peerMessage
	seenAt time.Time
}

// exchangePeers sends and receives peer messages until ctx ends. /readyz shows the peers; they affect no decision.
func (d *Daemon) exchangePeers(ctx context.Context) error {
	subscription, err := d.conn.Subscribe(ingest.PeerSubject(d.cfg.NATS.Inner(), "*"), func(m *nats.Msg) {
		var g peerMessage
		if json.Unmarshal(m.Data, &g) == nil && g.Instance != "" && g.Instance != d.instance {
			if d.notePeer(g, time.Now()) {
				d.sendPeer() // so that the new peer sees this one at once
			}
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
	d.mu.Lock()
	g := peerMessage{d.instance, d.version, d.status.Tick}
	d.mu.Unlock()
	data, err := json.Marshal(g)
	if err == nil && d.conn.IsConnected() {
		err = d.conn.Publish(ingest.PeerSubject(d.cfg.NATS.Inner(), ingest.EscapeToken(d.instance)), data)
	}
	if err != nil {
		d.log.Debug("the message to other daemons on this log was not sent", zap.Error(err))
	}
}

// notePeer records a peer's message, and reports whether the peer is new.
func (d *Daemon) notePeer(g peerMessage, now time.Time) (isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.peers, func(_ string, p peer) bool { return now.Sub(p.seenAt) > time.Hour })
	before, known := d.peers[g.Instance]
	switch {
	case !known && len(d.peers) >= maxPeers:
		return false
	case !known || now.Sub(before.seenAt) > peerLife || before.Version != g.Version:
		isNew = true
		d.log.Info("another daemon shares the log", zap.String("instance", g.Instance), zap.String("version", g.Version))
	}
	if d.peers == nil {
		d.peers = map[string]peer{}
	}
	d.peers[g.Instance] = peer{g, now}
	return isNew
}

// peersText lists the daemons that share the log. A silent peer stays listed for an hour.
func (d *Daemon) peersText(now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(d.peers)) {
		p := d.peers[name]
		text := fmt.Sprintf("%s (version %s, tick %s)", printableText(name), printableText(p.Version), p.Tick.UTC().Format(time.RFC3339))
		if p.Tick.IsZero() {
			text = fmt.Sprintf("%s (version %s, no tick yet)", printableText(name), printableText(p.Version))
		}
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
