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
	greetEvery = 5 * time.Second
	// peerLife is for how long nothing may be heard of a peer before it counts as gone, and peersMost bounds those that are known.
	peerLife  = 3 * greetEvery
	peersMost = 32
)

// greeting is what a daemon says of itself to those that share its log.
type greeting struct {
	Instance string    `json:"instance"`
	Version  string    `json:"version"`
	Tick     time.Time `json:"tick"` // its newest
}

// peer is another daemon on the same log.
type peer struct {
	greeting
	heard time.Time
}

// greetPeers tells the other daemons on this log of this one, and notes those that are heard, until ctx ends. Nothing is decided
// by it; people see it in /readyz.
func (d *Daemon) greetPeers(ctx context.Context) error {
	heard, err := d.conn.Subscribe(ingest.PeerSubject(d.cfg.NATS.Inner(), "*"), func(m *nats.Msg) {
		var g greeting
		if json.Unmarshal(m.Data, &g) == nil && g.Instance != "" && g.Instance != d.instance {
			if d.hear(g, time.Now()) {
				d.greet() // so that it need not wait to see this one
			}
		}
	})
	if err != nil {
		d.log.Warn("other daemons on this log cannot be seen", zap.Error(err))
		return nil
	}
	defer func() { _ = heard.Unsubscribe() }()
	ticker := time.NewTicker(greetEvery)
	defer ticker.Stop()
	for {
		d.greet()
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// greet tells the others of this daemon.
func (d *Daemon) greet() {
	d.mu.Lock()
	g := greeting{d.instance, d.version, d.status.Tick}
	d.mu.Unlock()
	data, err := json.Marshal(g)
	if err == nil && d.conn.IsConnected() {
		err = d.conn.Publish(ingest.PeerSubject(d.cfg.NATS.Inner(), ingest.EscapeToken(d.instance)), data)
	}
	if err != nil {
		d.log.Debug("other daemons on this log were not greeted", zap.Error(err))
	}
}

// hear notes what another daemon says of itself, and says whether it was not there before.
func (d *Daemon) hear(g greeting, now time.Time) (came bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.peers, func(_ string, p peer) bool { return now.Sub(p.heard) > time.Hour })
	before, known := d.peers[g.Instance]
	switch {
	case !known && len(d.peers) >= peersMost:
		return false
	case !known || now.Sub(before.heard) > peerLife || before.Version != g.Version:
		came = true
		d.log.Info("another daemon shares the log", zap.String("instance", g.Instance), zap.String("version", g.Version))
	}
	if d.peers == nil {
		d.peers = map[string]peer{}
	}
	d.peers[g.Instance] = peer{g, now}
	return came
}

// peersText says which daemons share the log. A peer that fell silent stays in it for an hour.
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
		if age := now.Sub(p.heard); age > peerLife {
			text += fmt.Sprintf(" not heard for %s", age.Round(time.Second))
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return "no other daemon on this log is seen"
	}
	return strings.Join(out, ", ")
}
