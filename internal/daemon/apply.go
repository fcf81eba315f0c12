package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/server"
	"github.com/forewarm/forewarm/storage/stream"
)

// consume applies the messages of the stream until ctx ends.
func (d *Daemon) consume(ctx context.Context) error {
	d.relearn(ctx)
	return d.consumer.Run(ctx, func(batches []ingest.Batch) error {
		d.apply(batches)
		d.keepState()
		return nil
	})
}

// publishWatermarks publishes a watermark each minute until ctx ends.
func (d *Daemon) publishWatermarks(ctx context.Context) error {
	inUse := d.stream.Load().State.LastSeq > 0
	d.inspect(ctx) // the first minute is by the server's clock, too
	return d.ticker.Run(ctx, inUse)
}

func (d *Daemon) apply(batches []ingest.Batch) {
	before := d.pipeline.Counters().Records
	d.tickBegan = time.Now()
	for i := range batches {
		d.pipeline.Apply(&batches[i], d.emit)
	}
	for i := range batches {
		d.refuse(batches[i].Sequence, batches[i].Refused)
		d.exporter.Ignored.Add(batches[i].Ignored)
	}
	d.exporter.Records.Add(int(d.pipeline.Counters().Records - before))
	d.setStatus(func(s *server.Status) { s.Sequence = d.pipeline.Sequence() })
}

// emit passes on the output of a tick: first what other parts wait for, then the series for reports and queries.
func (d *Daemon) emit(out *pipeline.Output) {
	d.announce(out)
	now, behind := time.Now(), time.Duration(0)
	if d.ticker != nil { // after an outage the newest minutes of the stream may be hours old
		behind = d.ticker.Now().Sub(out.Tick)
	}
	d.setStatus(func(s *server.Status) { s.TickedAt, s.Behind = now, behind }) // first: the age of advice
	d.Board.Observe(out)
	d.exporter.Observe(out, now.Add(-max(behind-d.cfg.Features.Lateness, 0))) // since the tick was due
	err := d.store.Append(out)
	d.note(d.failedWrites, "series", err)
	d.note(d.failedWrites, "compaction", d.store.CompactError())
	if err != nil {
		d.log.Error("series of a tick are lost", zap.Time("tick", out.Tick), zap.Error(err))
	}
	d.setStatus(func(s *server.Status) {
		s.Tick, d.omissions = out.Tick, d.pipeline.Omissions()
		if d.firstTick.IsZero() {
			d.firstTick = out.Tick
		}
		if out.Tick.After(d.newestTick) {
			d.newestTick = out.Tick
		}
		s.Producers = out.Producers
	})
	d.tickTook(time.Since(d.tickBegan).Seconds())
	adjustGC(true)
	if d.onTick != nil {
		d.onTick(out)
	}
	d.tickBegan = time.Now()
}

// announce stores the decisions and notices of a tick in the log, where the sinks read them. It logs decisions that
// changed, and publishes the forecasts.
func (d *Daemon) announce(out *pipeline.Output) {
	var records []stream.Record
	var notices []alerting.Notice
	for _, x := range out.Decisions() {
		state, err := d.pipeline.DecisionState(x.Pool)
		if err != nil {
			d.log.Error("the state after a decision cannot be encoded", zap.Error(err))
		}
		records = append(records, stream.Record{Decision: *x, State: state})
		if x.Publish {
			notices = append(notices, alerting.Notice{Decision: x})
		}
	}
	for i := range out.Alerts {
		notices = append(notices, alerting.Notice{Alert: &out.Alerts[i]})
	}
	if err := d.decisions.Add(out.Tick, records, notices); err != nil {
		d.log.Error("a tick is not in the log", zap.Time("tick", out.Tick), zap.Error(err))
	}
	if !out.Tick.After(d.loggedTick) {
		return // logged before the restart
	}
	if len(d.decided) > d.cfg.MaxPools { // names of forgotten pools
		clear(d.decided)
	}
	for _, x := range out.Decisions() {
		d.logDecision(x)
	}
	for i := range out.Pools {
		x := &out.Pools[i]
		for _, c := range x.Trusted.Contradictions {
			if c.Since.Equal(out.Tick) {
				d.log.Warn(c.String(), zap.String("pool", x.Pool), zap.Time("tick", out.Tick))
			}
		}
	}
	if err := d.publishForecasts(out.Pools); err != nil {
		d.log.Warn("forecasts were not published", zap.Time("tick", out.Tick), zap.Error(err))
	}
}

// logDecision logs a decision that differs from the previous one.
func (d *Daemon) logDecision(x *alerting.Decision) {
	now := fmt.Sprint(x.PoolAction(), x.Desired, x.PrefillReplicas(), x.Withheld)
	if d.decided[x.Pool] == now {
		return
	}
	d.decided[x.Pool] = now
	d.log.Info(x.Reason, zap.String("pool", x.Pool), zap.Time("tick", x.Tick), zap.String("action", string(x.PoolAction())),
		zap.Int("desired", x.Desired), zap.String("withheld", x.Withheld))
}

// publishForecasts sends a message for each class and pool, without acknowledgement: the next minute replaces a lost one.
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

// refuse counts and shows records that could not be used. Sequence 0 means none. It is safe for concurrent use.
func (d *Daemon) refuse(sequence uint64, refused []ingest.Refusal) {
	for i := range refused {
		d.exporter.Refused(refused[i].Reason).Inc()
		d.noteRefused(refused[i], 1)
	}
	d.deadLetter.Send(sequence, refused)
}
