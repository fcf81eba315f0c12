package daemon

import (
	"fmt"
	"math"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/pipeline"
	"github.com/forewarm/forewarm/storage"
)

func (d *Daemon) exportCounters() {
	count := d.exporter.Counter
	count("forewarm_stream_lost_messages_total", "Messages that were gone from the telemetry stream or a source before they were read.", func() uint64 { return d.consumer.Lost.Load() + d.relay.Lost.Load() })
	count("forewarm_deadletter_dropped_total", "Refused records that could not be put on the dead-letter subject.", d.deadLetter.Dropped.Load)
	count("forewarm_snapshots_refused_total", "Snapshots that could not be used at the start: damaged, of another version, or ahead of the stream.", func() uint64 { return uint64(d.snapshotsRefused) })
	count("forewarm_http_foreign_requests_total", "Requests to the page's address that were refused with 403: another host, or a web page of another site.", d.server.Foreign.Load)
	omissions := func() pipeline.Omissions { return locked(d, &d.omissions) }
	count("forewarm_dedup_forgotten_total", "Request ids forgotten to stay within the bound.", func() uint64 { return omissions().IDsForgotten })
	count("forewarm_alerts_dropped_total", "Alert conditions that are not followed because too many others are.", func() uint64 { return omissions().ConditionsDropped })
	count("forewarm_producers_refused_total", "Records of producers beyond the bound. Their clocks are not watched.", func() uint64 { return omissions().ProducersRefused })
	count("forewarm_features_bad_times_total", "Requests that are counted without their times, because these contradict each other.", func() uint64 { return omissions().Features.BadTimes })
	count("forewarm_features_overflow_records_total", "Records that are counted as class _other because there are too many classes, or theirs is *, the name of the whole pool.", func() uint64 { return omissions().Features.OverflowRecords })
	count("forewarm_features_replicas_refused_total", "Replica reports beyond the bound on replicas.", func() uint64 { return omissions().Features.ReplicasRefused })
	d.exporter.Gauge("forewarm_stream_lag_messages", "Messages of the telemetry stream that are not read yet.", func() float64 {
		if n, known := d.consumer.Pending(); known {
			return float64(n)
		}
		return math.NaN()
	})
	d.tickTook = d.exporter.Histogram("forewarm_tick_duration_seconds",
		"Time that a tick took: closing windows, learning, deciding, storing and handing on.", pauses)
	d.snapshotTook = d.exporter.Histogram("forewarm_snapshot_duration_seconds", "Time that storing a snapshot took.", pauses)
	d.snapshotStopped = d.exporter.Histogram("forewarm_snapshot_stop_duration_seconds", "Time that the pipeline stopped for a snapshot.", pauses)
	d.exporter.Gauge("forewarm_snapshot_bytes", "Size of the newest saved state; NaN before the first.", func() float64 {
		return locked(d, &d.savedBytes)
	})
	count("forewarm_log_stored_total", "Decisions that this daemon was the first to store in the log.", func() uint64 { return d.decisions.Counters().Stored })
	count("forewarm_log_repeated_total", "Decisions that were in the log already, and are the same: of another daemon, or made again after a restart.", func() uint64 { return d.decisions.Counters().Repeated })
	count("forewarm_log_divergent_total", "Decisions that differ from those in the log. Those in the log are kept.", func() uint64 { return d.decisions.Counters().Divergent })
	count("forewarm_log_lost_total", "Ticks that were dropped, because the log could not be written for too long.", func() uint64 { return d.decisions.Counters().Lost })
	count("forewarm_series_refused_total", "Samples that the time-series database did not take.", func() uint64 {
		c := d.store.Counters()
		return c.Refused + c.Capped
	})
	count("forewarm_series_lost_ticks_total", "Ticks whose samples are not stored, because the disk was full or did not work, or later samples were stored before.", func() uint64 { return d.store.Counters().LostTicks })
	d.exporter.Gauge("forewarm_log_waiting", "Ticks that are not in the log yet.", func() float64 { return float64(d.decisions.Counters().Waiting) })
	d.exporter.Flag("forewarm_storage_degraded", "1 while something cannot be written. Decisions go on in memory; /readyz says what.", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		trouble, _ := d.failedWrites.text()
		return trouble != ""
	})
	d.exporter.Gauge("forewarm_storage_free_bytes", "Free space where storage.dir is.", func() float64 {
		free, err := storage.Free(d.cfg.Storage.Dir)
		if err != nil {
			return math.NaN()
		}
		return float64(free)
	})
	d.exportSinks()
	for code, requests := range d.intake.Requests {
		name := fmt.Sprintf("forewarm_listener_requests_total{code=%q}", code)
		count(name, "Requests of producers that do not speak NATS, by status code.", requests.Load)
	}
}

// pauses are histogram bounds for pauses of the pipeline, seconds.
var pauses = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func (d *Daemon) exportSinks() {
	for i, s := range d.dispatcher.Stats() {
		label := fmt.Sprintf("{sink=%q}", s.Sink)
		count := func(name, help string, value func(alerting.SinkStats) uint64) {
			d.exporter.Counter(name+label, help, func() uint64 { return value(d.dispatcher.Stats()[i]) })
		}
		count("forewarm_sink_sent_total", "Notifications that were delivered.", func(s alerting.SinkStats) uint64 { return s.Sent })
		count("forewarm_sink_retried_total", "Failed attempts to deliver that are repeated.", func(s alerting.SinkStats) uint64 { return s.Retried })
		count("forewarm_sink_failed_total", "Notifications that a sink refused for good.", func(s alerting.SinkStats) uint64 { return s.Failed })
		count("forewarm_sink_lapsed_total", "Notifications that expired before they were delivered, or were for a consumer that is gone.",
			func(s alerting.SinkStats) uint64 { return s.Lapsed })
		d.exporter.Gauge("forewarm_sink_queued"+label, "Notifications that waited at the last attempt, with the one that was tried. Some may not be for this sink.",
			func() float64 { return float64(d.dispatcher.Stats()[i].Queued) })
		d.exporter.Flag("forewarm_sink_disabled"+label, "1 when the consumer answered 410 Gone: it gets nothing until a restart.", func() bool {
			return d.dispatcher.Stats()[i].Disabled
		})
	}
}
