package daemon

import (
	"encoding/json"
	"fmt"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
)

// logDecision logs a decision that differs from the previous one.
func (d *Daemon) logDecision(x *alerting.Decision) {
	now := fmt.Sprint(x.PoolAction(), x.Desired, x.PrefillReplicas(), x.Withheld)
	if d.decided[x.Pool] == now {
		return
	}
	d.decided[x.Pool] = now
	d.log.Info(x.Reason, zap.String("pool", x.Pool), zap.Time("tick", x.Tick), zap.String("action", string(x.PoolAction())), zap.Int("desired", x.Desired), zap.String("withheld", x.Withheld))
}

// publishForecasts sends one message per class and per pool total. The stream keeps the newest. A lost message is
// replaced a minute later, so it waits for no acknowledgement.
func (d *Daemon) publishForecasts(pools []pipeline.PoolOutput) error {
	for i := range pools {
		for _, f := range server.ForecastsOf(&pools[i].Forecast) {
			body, err := json.Marshal(f)
			if err != nil {
				return err
			}
			if err := d.conn.Publish(ingest.Subject(d.cfg.NATS.Prefix, ingest.ForecastSubject, f.Pool, f.Class), body); err != nil {
				return err
			}
		}
	}
	return nil
}
