// Package plan answers, before a launch, which resource of a pool runs out first, when, and how many replicas are
// needed: the launch sheet and its scenarios.
//
// It works on loads: sums over requests per second. A [Change] multiplies them, a [Scenario] is a named change, and
// [New] compares each with the pool's capacity. Pure: no clock, no I/O. Cost O(minutes · scenarios).
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

// Traffic is the demand of a pool: one load a minute, or a single one if only rates are stated.
type Traffic struct {
	Source  string  // for people
	Minutes []Load  // of all attempts
	Calls   float64 // requests a second, each counted once, without retries; 0: as many as attempts
	Notes   []string
}

// attempts is the mean of requests a second.
func (t *Traffic) attempts() (mean float64) {
	for _, l := range t.Minutes {
		mean += l.Requests / float64(len(t.Minutes))
	}
	return mean
}

// Input is the input of a sheet.
type Input struct {
	Pool    Pool
	Traffic Traffic
	Launch  Change
	Ramp    time.Duration // duration of the change; 0 is at once
}

// Sheet is a launch sheet with its scenarios.
type Sheet struct {
	Pool         string    `json:"pool"`
	Source       string    `json:"source"`
	Minutes      int       `json:"minutes"`
	Replicas     int       `json:"replicas"` // now
	Prefill      int       `json:"prefill_replicas,omitempty"`
	PrefillLimit int       `json:"limit_prefill_replicas,omitempty"`
	Limit        int       `json:"limit_replicas"`
	LimitBy      string    `json:"limit_by"`
	Lead         number    `json:"lead_time_seconds"`
	Ramp         number    `json:"ramp_seconds"`
	Attempts     number    `json:"attempts_per_call"` // included in the load
	Launch       Change    `json:"launch"`
	Rates        string    `json:"rates_source"` // source of the service rates
	Memory       *Memory   `json:"memory,omitempty"`
	Rows         []Row     `json:"sheet"`
	Outcomes     []Outcome `json:"scenarios"`
	Cost         *Cost     `json:"cost,omitempty"` // missing without a price
	Notes        []string  `json:"notes"`
}

// Cost is the cost of the present replicas, at the pool's mean traffic.
type Cost struct {
	GPUHour number `json:"usd_per_gpu_hour"`
	Hour    number `json:"usd_per_hour"`
	Request number `json:"usd_per_request"`
}

// Row is a resource before and after the launch, at the 95th percentile of the minutes.
type Row struct {
	Use
	Baseline number `json:"baseline"`
	// Multiple of the baseline's traffic at which the present replicas run out.
	Multiple number `json:"runs_out_at_multiple"`
}

// New makes a sheet. Errors name what is missing.
func New(in Input) (*Sheet, error) {
	p, t := &in.Pool, &in.Traffic
	attempts := t.attempts()
	if attempts <= 0 {
		return nil, fmt.Errorf("pool %q has no traffic to plan for: wait for its first minutes, or state rates above 0", p.Name)
	}
	if p.Replicas <= 0 {
		return nil, fmt.Errorf("no replica of pool %q is known to be ready: state how many there are to be", p.Name)
	}
	if p.Lead == 0 {
		p.Lead = p.Warmup.Quantile(0.9) + time.Minute
	}
	limit, key := p.Limit()
	calls := cmp.Or(t.Calls, attempts)
	s := &Sheet{
		Pool: p.Name, Source: t.Source, Minutes: len(t.Minutes), Replicas: p.Replicas, Limit: limit, LimitBy: key,
		Lead: number(p.Lead.Seconds()), Ramp: number(in.Ramp.Seconds()), Launch: in.Launch, Rates: string(p.Rates.Source),
		Attempts: number(attempts / calls), Notes: append([]string{}, t.Notes...),
	}
	if p.Disaggregated {
		s.Prefill, s.PrefillLimit = p.Prefill, p.BoundsOf(capacity.PrefillRole).Max
	}
	for _, scenario := range in.Scenarios() {
		s.Outcomes = append(s.Outcomes, in.evaluate(scenario))
	}
	s.rows(&s.Outcomes[baselineIndex], &s.Outcomes[launchIndex])
	if p.Fit != nil {
		s.Memory = MemoryOf(&p.Pool)
	}
	if each := p.ReplicaHourUSD(); each > 0 {
		hour := each * float64(p.Replicas+s.Prefill)
		s.Cost = &Cost{GPUHour: number(p.GPUHourUSD), Hour: number(hour), Request: number(hour / 3600 / calls)}
	}
	s.note(&in)
	return s, nil
}

// rows compares the launch with the baseline, which has the same resources.
func (s *Sheet) rows(baseline, launch *Outcome) {
	for i, after := range launch.Uses {
		before := &baseline.Uses[i]
		r := Row{Use: after, Baseline: before.Demand, Multiple: value.Unknown}
		switch {
		case after.Resource == Queue:
			r.Headroom = value.Unknown // a queue is usually empty or far above its bound
		case after.Resource != Budget && before.Demand > 0:
			r.Multiple = before.Capacity / before.Demand
		}
		s.Rows = append(s.Rows, r)
	}
}

// note adds what readers should know about the figures.
func (s *Sheet) note(in *Input) {
	p, attempts := &in.Pool, in.Traffic.attempts()
	note := func(when bool, format string, a ...any) {
		if when {
			s.Notes = append(s.Notes, fmt.Sprintf(format, a...))
		}
	}
	note(s.Attempts > 1.001, "The load includes retries: %.3g attempts a request. Without them there would be %s requests/s on average, in place of %s.",
		float64(s.Attempts), value.Short(attempts/float64(s.Attempts)), value.Short(attempts))
	note(true, "Service rates of a replica are %s.", p.Rates.Source)
	note(p.Rates.Extrapolated, "They are extrapolated: of requests of other lengths, or of higher load, than were measured.")
	var missing []string
	for _, r := range s.Rows {
		if r.missing() || r.Risk == Unknown && r.Resource == capacity.Slots {
			missing = append(missing, r.Title)
		}
	}
	note(missing != nil, "Not all is known of these resources, so they can run out unseen: %s.", strings.Join(missing, ", "))
	cached := func(l Load) bool { return l.Cached > 0 }
	note(!slices.ContainsFunc(in.Traffic.Minutes, cached),
		"No cached tokens are known: all prompt tokens count as prefill.")
	reserves, prefill := p.Reserves.String(), p.ReservesOf(capacity.PrefillRole).String()
	note(reserves != "", "Replicas include a reserve: %s.", reserves)
	note(p.Disaggregated && prefill != "", "Prefill replicas include a reserve: %s.", prefill)
}

// Memory is the memory of a replica.
type Memory struct {
	GPU        capacity.GPUMemory `json:"gpu_bytes"` // of each
	TokenBytes number             `json:"kv_bytes_per_token_and_gpu"`
	Tokens     number             `json:"kv_tokens_per_replica"`
	Windowed   int                `json:"windowed_layers,omitempty"`
	Window     int                `json:"window_tokens,omitempty"`
}

// MemoryOf is the memory of a replica of a pool with a model.
func MemoryOf(p *capacity.Pool) *Memory {
	f := p.Fit
	return &Memory{
		GPU: f.GPU, TokenBytes: number(f.TokenBytes), Tokens: number(p.KVTokens),
		Windowed: f.Model.Windowed, Window: f.Model.Window,
	}
}
