package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting/plan"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/storage"
)

// rates are the dimensions of demand of one minute, as daemons keep them; NaN where one is not known.
type rates struct{ requests, prefill, cached, decode, kv float64 }

var noRates = rates{math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()}

func (r *rates) of(dimension string) *float64 {
	switch dimension {
	case features.DimRequests:
		return &r.requests
	case features.DimPrefill:
		return &r.prefill
	case features.DimCached:
		return &r.cached
	case features.DimDecode:
		return &r.decode
	case features.DimKV:
		return &r.kv
	}
	return nil
}

// add counts v in, which may be the first that is known.
func (r *rates) add(dimension string, v float64) {
	into := r.of(dimension)
	switch {
	case into == nil || math.IsNaN(v):
	case math.IsNaN(*into):
		*into = v
	default:
		*into += v
	}
}

// load of a minute; ok is false when its requests are not known.
func (r *rates) load(p *plan.Pool) (plan.Load, bool) {
	if math.IsNaN(r.requests) {
		return plan.Load{}, false
	}
	return plan.FromRates(r.requests, known(r.prefill), known(r.cached), known(r.decode), r.kv, p.Rates.PrefillTokensPerS, p.Rates.ITL.Seconds()), true
}

// liveTraffic makes traffic of minutes and of the newest rates of each class.
func liveTraffic(p *plan.Pool, source string, start time.Time, minutes []rates, classes map[string]rates) (plan.Traffic, error) {
	t := plan.Traffic{Source: source, Start: start}
	cached := false
	for i := range minutes {
		l, ok := minutes[i].load(p)
		if !ok {
			continue // a minute without telemetry is no minute of zero traffic
		}
		cached = cached || minutes[i].cached > 0
		t.Minutes = append(t.Minutes, l)
	}
	if len(t.Minutes) == 0 {
		return t, fmt.Errorf("%s has no minute of pool %q whose requests are known", source, p.Name)
	}
	if missing := len(minutes) - len(t.Minutes); missing > 0 {
		t.Notes = append(t.Notes, fmt.Sprintf("%d minutes have no telemetry and are left out; times of day are as if they had not been.", missing))
		t.Start = time.Time{}
	}
	if !cached {
		t.Notes = append(t.Notes, "Nothing was served from cache, or nobody said so: all prompt tokens count as prefill.")
	}
	t.Notes = append(t.Notes, "Lengths of single requests are not kept: outputs are taken as exponential, and their moments as the KV tokens held imply.")
	sums := map[string]plan.Load{}
	for name, r := range classes {
		if l, ok := r.load(p); ok {
			sums[name] = l.Times(features.Minute.Seconds())
		}
	}
	t.Classes = means(sums, 1)
	return t, nil
}

// readHistory takes the traffic of a data directory that no daemon holds.
func (p *planFlags) readHistory(ctx context.Context, in *plan.Input) (err error) {
	if err := checkDataDir(p.data); err != nil {
		return err
	}
	c := storage.DefaultConfig()
	c.Dir = p.data
	h, closeHistory, err := openHistory(c)
	if errors.Is(err, storage.ErrLocked) {
		return fmt.Errorf("%w; or ask it: plan -from URL", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeHistory()) }()
	newest := period{zone: time.UTC}
	if err := newest.complete(h.Journal); err != nil {
		return err
	}
	in.Traffic, err = historyTraffic(ctx, h, &in.Pool, p.data, newest.end, p.days)
	if errors.Is(err, errNoTraffic) {
		return usagef("-data %w: name its pool with -pool", err)
	}
	return err
}

// errNoTraffic says that a history holds nothing of a pool.
var errNoTraffic = errors.New("there is no traffic")

// historyTraffic is what was asked of a pool in the days before end, minute by minute.
func historyTraffic(ctx context.Context, h storage.History, p *plan.Pool, source string, end time.Time, days int) (plan.Traffic, error) {
	start := end.AddDate(0, 0, -days).Truncate(features.Minute)
	minutes := make([]rates, int(end.Sub(start)/features.Minute))
	for i := range minutes {
		minutes[i] = noRates
	}
	classes := map[string]rates{}
	retries := 0.0
	err := h.Observed(ctx, start, end, func(key features.Key, dimension string, values []float64) error {
		if key.Pool != p.Name {
			return nil
		}
		if key.Class == features.TotalClass {
			for i, v := range values[:min(len(values), len(minutes))] {
				minutes[i].add(dimension, v)
				if dimension == features.DimRetry {
					retries += known(v)
				}
			}
			return nil
		}
		class, ok := classes[key.Class]
		if !ok {
			class = noRates
		}
		sum := 0.0
		for _, v := range values {
			sum += known(v)
		}
		class.add(dimension, sum/float64(max(len(values), 1)))
		classes[key.Class] = class
		return nil
	})
	if err != nil {
		return plan.Traffic{}, err
	}
	first := 0
	for first < len(minutes) && math.IsNaN(minutes[first].requests) {
		first++ // before the daemon began
	}
	if first == len(minutes) {
		return plan.Traffic{}, fmt.Errorf("%s: %w of pool %q in the newest %s", source, errNoTraffic, p.Name, count(days, "day"))
	}
	minutes = minutes[first:]
	t, err := liveTraffic(p, fmt.Sprintf("%s (%s)", source, count(len(minutes), "minute")), start.Add(time.Duration(first)*features.Minute), minutes, classes)
	if requests := t.Mean().Requests * float64(len(t.Minutes)); requests > 0 {
		t.Retried = retries / requests
	}
	return t, err
}

// liveRate is a rate of a replica as a daemon tells it; null is 0.
type liveRate struct {
	TokensPerS   float64         `json:"tokens_per_s"`
	Source       capacity.Source `json:"source"`
	Extrapolated bool            `json:"extrapolated"`
}

// maxAnswer bounds what is read of a daemon's answer.
const maxAnswer = 64 << 20

// livePool is what is read of a daemon's answer about a pool.
type livePool struct {
	Replicas struct {
		Ready int `json:"ready"`
	} `json:"replicas"`
	Decision struct {
		ByRole struct {
			PrefillReady int `json:"prefill_ready"`
		} `json:"desired_by_role"`
	} `json:"decision"`
	Service   *struct{ Prefill, Decode liveRate } `json:"service"`
	Resources []struct {
		Resource   string   `json:"resource"`
		PerReplica *float64 `json:"per_replica"`
	} `json:"resources"`
}

// liveForecast is what is read of its answer about what was and what is expected.
type liveForecast struct {
	Forecasts []struct {
		Class     string `json:"class"`
		Dimension string `json:"dimension"`
		Now       struct {
			Mean *float64 `json:"mean"`
		} `json:"now"`
	} `json:"forecasts"`
	Actuals []struct {
		Dimension string `json:"dimension"`
		Points    []struct {
			UnixMS int64    `json:"unix_ms"`
			Value  *float64 `json:"value"`
		} `json:"points"`
	} `json:"actuals"`
}

// askLive takes traffic and replicas of a running daemon.
func (p *planFlags) askLive(ctx context.Context, in *plan.Input) error {
	base := strings.TrimSuffix(p.from, "/") + "/api/v1/pools/" + url.PathEscape(in.Pool.Name)
	var pool livePool
	if err := getJSON(ctx, base, &pool); err != nil {
		return err
	}
	var forecast liveForecast
	if err := getJSON(ctx, base+"/forecast", &forecast); err != nil {
		return err
	}
	pool.complete(&in.Pool)
	start, minutes, err := forecast.minutes()
	if err != nil {
		return fmt.Errorf("%s %w", p.from, err)
	}
	in.Traffic, err = liveTraffic(&in.Pool, fmt.Sprintf("%s (%s)", p.from, count(len(minutes), "minute")), start, minutes, forecast.classes())
	return err
}

// complete puts in what the daemon knows of the pool. The rates it goes by are what it observed, too.
func (l *livePool) complete(p *plan.Pool) {
	if p.Replicas == 0 {
		p.Replicas = l.Replicas.Ready
	}
	if p.Prefill == 0 {
		p.Prefill = l.Decision.ByRole.PrefillReady
	}
	if l.Service != nil {
		prefill, decode := l.Service.Prefill, l.Service.Decode
		if prefill.TokensPerS > 0 {
			p.Rates.PrefillTokensPerS, p.Rates.Source = prefill.TokensPerS, prefill.Source
		}
		if decode.TokensPerS > 0 {
			p.Rates.DecodeTokensPerS, p.Rates.Bound, p.Rates.Source = decode.TokensPerS, true, decode.Source
		}
		p.Rates.Extrapolated = prefill.Extrapolated || decode.Extrapolated
	}
	for _, r := range l.Resources {
		if r.Resource == capacity.KV && r.PerReplica != nil && p.KVTarget > 0 {
			p.Reported = int(min(max(*r.PerReplica/p.KVTarget, 0), 1e12))
		}
	}
}

// minutes are the pool's rates from start on, one for each minute; those without telemetry are unknown.
func (l *liveForecast) minutes() (start time.Time, minutes []rates, err error) {
	var first, last int64
	for _, a := range l.Actuals {
		for _, x := range a.Points {
			if first == 0 || x.UnixMS < first {
				first = x.UnixMS
			}
			last = max(last, x.UnixMS)
		}
	}
	n := (last-first)/features.Minute.Milliseconds() + 1
	if n > maxPlanMinutes {
		return start, nil, fmt.Errorf("answers minutes that are %d days apart", n/1440)
	}
	minutes = slices.Repeat([]rates{noRates}, int(n))
	for _, a := range l.Actuals {
		for _, x := range a.Points {
			if x.Value != nil {
				minutes[(x.UnixMS-first)/features.Minute.Milliseconds()].add(a.Dimension, *x.Value)
			}
		}
	}
	return time.UnixMilli(first).UTC(), minutes, nil
}

// classes are the newest rates of each class.
func (l *liveForecast) classes() map[string]rates {
	classes := map[string]rates{}
	for _, f := range l.Forecasts {
		if f.Class == features.TotalClass || f.Now.Mean == nil {
			continue
		}
		r, ok := classes[f.Class]
		if !ok {
			r = noRates
		}
		r.add(f.Dimension, *f.Now.Mean)
		classes[f.Class] = r
	}
	return classes
}

func getJSON(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return usagef("-from: %w", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the daemon does not answer: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("the daemon's answer broke off: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon answers %s to %s: %s", res.Status, address, strings.TrimSpace(string(body[:min(len(body), 300)])))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s answers no JSON of a daemon: %w", address, err)
	}
	return nil
}
