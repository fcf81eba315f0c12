package daemon

import (
	"github.com/forewarm/forewarm/server/promapi"
	"github.com/forewarm/forewarm/storage"
)

// openPromQL lets the stored series be queried as those of a Prometheus.
func (d *Daemon) openPromQL() {
	metadata := map[string]promapi.Metadata{}
	for name, help := range storage.SeriesHelp() {
		metadata[name] = promapi.Metadata{Type: "gauge", Help: help}
	}
	promapi.New(d.cfg.PromQL, d.store.Queryable(), metadata, d.version, slogFrom(d.log)).Register(d.server.Handle)
}
