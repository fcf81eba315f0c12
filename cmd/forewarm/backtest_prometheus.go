package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/storage/remote"
)

// prometheusFlags configure the data to read from a Prometheus.
type prometheusFlags struct {
	url    string
	until  time.Time
	days   int
	source remote.Source
}

// maxBacktestDays bounds -days, because the data is held in memory.
const maxBacktestDays = 92

func (p *prometheusFlags) register(f *flag.FlagSet) {
	f.StringVar(&p.url, "prometheus", "", "read a pool's last weeks from the Prometheus, VictoriaMetrics or Thanos at this `URL` in place of a trace")
	f.IntVar(&p.days, "days", 14, "`number` of days to read")
	timeFlag(f, &p.until, "until", "`time` up to which to read, RFC 3339 (default: now)")
	presets := remote.Presets()
	choice(f, &p.source.Preset, "preset", "whose `metrics` to read: "+strings.Join(presets, ", ")+" (default: vllm)", presets...)
	f.StringVar(&p.source.Match, "match", "", "label `matchers` of the pool's series, such as model_name=\"llama\"")
}

// sourceOf returns the source that the flags describe, or the configured one of the pool.
func (p *prometheusFlags) sourceOf(cfg *config.Config, pool string) *remote.Source {
	stated := p.source != (remote.Source{})
	p.source.Pool = pool
	if cfg != nil && !stated {
		of := func(s remote.Source) bool { return s.Pool == pool }
		if i := slices.IndexFunc(cfg.Backfill.Sources, of); i >= 0 {
			return &cfg.Backfill.Sources[i]
		}
	}
	return &p.source
}

// read runs all queries of a pool. kvTokens is the configured KV cache of a replica, 0 if not set. If the configuration
// has the same address, it connects as the daemon does, with its credentials and certificates.
func (p *prometheusFlags) read(ctx context.Context, cfg *config.Config, pool string, kvTokens float64, bar *progress) (*backtest.Recorded, error) {
	if p.days < 1 || p.days > maxBacktestDays {
		return nil, usagef("-days is %d: it must be 1 to %d", p.days, maxBacktestDays)
	}
	c := remote.DefaultBackfill()
	c.URL = p.url
	if cfg != nil && cfg.Backfill.URL == p.url {
		c = cfg.Backfill
	}
	reader, err := remote.NewPast(c)
	if err != nil {
		return nil, usagef("-prometheus: %w", err)
	}
	source, now := p.sourceOf(cfg, pool), time.Now().UTC()
	if p.until.After(now) {
		return nil, usagef("-until is %s: it must not be in the future", p.until.Format(time.RFC3339))
	}
	until := cmp.Or(p.until, now).Truncate(features.Minute)
	address, _ := url.Parse(p.url) // already checked
	r := &backtest.Recorded{
		Source:   fmt.Sprintf("%s, %d days", address.Redacted(), p.days),
		Start:    until.AddDate(0, 0, -p.days),
		Demand:   map[string][]float64{},
		KVTokens: kvTokens,
	}
	fix := func(err error) error {
		return fmt.Errorf("%w; %s", err, remote.Fix("-prometheus", "-match or -preset", "the credentials below backfill in the file of -config"))
	}
	if r.KVTokens == 0 {
		if r.KVTokens, err = reader.KVCapacity(ctx, source, until); err != nil {
			return nil, fix(err)
		}
	}
	questions, done := append(source.Questions(r.KVTokens), source.Replicas()), int64(0)
	err = reader.Read(ctx, questions, r.Start, p.days*24*60, func() { done++; bar.show("read", done, int64(len(questions)*p.days)) })
	if err != nil {
		return nil, fix(err)
	}
	for _, q := range questions {
		if q.Note != "" {
			r.Notes = append(r.Notes, q.Note)
		}
		switch {
		case q.Values == nil:
		case q.Name == "replicas":
			r.Replicas = q.Values
		default:
			r.Demand[q.Name] = q.Values
		}
	}
	if len(r.Demand) == 0 {
		return nil, fmt.Errorf("no query has any value in %d days before %s; check -match, -preset and -until, or state other queries below backfill.sources in the file of -config. Rates are over two minutes, so scrapes may be a minute apart at most. %s",
			p.days, until.Format(time.RFC3339), strings.Join(r.Notes, " "))
	}
	return r, nil
}
