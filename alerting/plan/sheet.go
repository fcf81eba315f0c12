package plan

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/forewarm/forewarm/forecaster/capacity"
)

// Traffic is the demand of a pool: one load a minute, or a single one if only rates are stated.
type Traffic struct {
	Source  string // for people
	Minutes []Load // of all attempts
	Calls
	Notes []string

	Classes, Tenants []Class // by mean load, heaviest first; nil if unknown. The remaining cost is charged to others
}

// Calls are requests a second, each counted once, without retries.
type Calls struct {
	Calls  float64 // 0: as many as attempts, and Served is unknown
	Served float64 // of Calls; NaN if unknown
}

// of are the calls of a load.
func (c Calls) of(l Load) Calls {
	if c.Calls == 0 {
		return Calls{l.Requests, math.NaN()}
	}
	return c
}

// Class is the mean load of one class or tenant.
type Class struct {
	Name string
	Load Load
	Calls
}

// Mean is the mean load of the minutes.
func (t *Traffic) Mean() Load {
	var sum Load
	for _, l := range t.Minutes {
		sum = sum.Plus(l)
	}
	return sum.Times(1 / float64(max(len(t.Minutes), 1)))
}

// Input is the input of a sheet.
type Input struct {
	Pool    Pool
	Traffic Traffic
	Launch  Change
	Ramp    time.Duration // duration of the change; 0 is at once
	Today   time.Time     // for the age of prices; zero skips it
	Fit     *capacity.Fit // of the model on a replica; nil without a model
	Lengths Contexts      // of requests, for Fit
	Long    Cohort        // requests with long prompts; zeros mean the default
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
	Cost         *Cost     `json:"cost,omitempty"`
	Notes        []string  `json:"notes"`
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
	if len(t.Minutes) == 0 || t.Mean().Requests <= 0 {
		return nil, errors.New("the pool has no traffic to plan for")
	}
	if p.Replicas <= 0 {
		return nil, errors.New("the present number of replicas is not known")
	}
	lead := p.Lead
	if lead == 0 {
		lead = p.Warmup.Quantile(0.9) + time.Minute
	}
	limit, key := p.Limit()
	s := &Sheet{
		Pool: p.Name, Source: t.Source, Minutes: len(t.Minutes), Replicas: p.Replicas, Limit: limit, LimitBy: key,
		Lead: number(lead.Seconds()), Ramp: number(in.Ramp.Seconds()), Launch: in.Launch, Rates: string(p.Rates.Source),
		Attempts: number(t.Mean().Requests / t.of(t.Mean()).Calls), Notes: append([]string{}, t.Notes...),
	}
	if p.Disaggregated {
		s.Prefill, s.PrefillLimit = p.Prefill, p.PrefillReplicas.Max
	}
	e := evaluation{pool: p, traffic: t, mix: mixOf(t.Classes, p.prefillRate(), p.itl())}
	for _, scenario := range in.Scenarios() {
		s.Outcomes = append(s.Outcomes, e.run(scenario, in.Ramp, lead))
	}
	s.rows(&s.Outcomes[0], &s.Outcomes[1])
	if in.Fit != nil {
		s.Memory = MemoryOf(in.Fit, in.Lengths)
	}
	s.Cost = costOf(&in)
	s.note(&in)
	return s, nil
}

// rows compares the launch with the baseline.
func (s *Sheet) rows(baseline, launch *Outcome) {
	for _, after := range launch.Uses {
		r := Row{Use: after, Baseline: unknown, Multiple: unknown}
		if after.Resource == Queue {
			r.Headroom = unknown // a queue is usually empty or far above its bound
		}
		for _, before := range baseline.Uses {
			if before.Resource != after.Resource {
				continue
			}
			r.Baseline = before.Demand
			if after.Resource == Queue || after.Resource == Budget || !(before.Demand > 0) || !before.Capacity.Known() {
				continue
			}
			r.Multiple = before.Capacity / before.Demand
		}
		s.Rows = append(s.Rows, r)
	}
}

// note adds what readers should know about the figures.
func (s *Sheet) note(in *Input) {
	p := &in.Pool
	mean := in.Traffic.Mean()
	if right, wrong := mean.KV(p.prefillRate(), p.itl()), mean.KVOfMeans(p.prefillRate(), p.itl()); right > 0 && (wrong < 0.9*right || wrong > 1.1*right) {
		s.Notes = append(s.Notes, fmt.Sprintf("Sizing with average lengths would put the active KV tokens at %.0f %% of what they are.", 100*wrong/right))
	}
	if s.Attempts > 1.001 {
		s.Notes = append(s.Notes, fmt.Sprintf("The load includes retries: %.3g attempts a request. Without them there would be %s requests/s on average, in place of %s.",
			float64(s.Attempts), amount(number(mean.Requests)/s.Attempts), amount(number(mean.Requests))))
	}
	for i := range s.Outcomes {
		if o := &s.Outcomes[i]; o.Long > 0 && p.each(capacity.KV) > 0 && o.LongTokens > p.each(capacity.KV) {
			s.Notes = append(s.Notes, fmt.Sprintf("A prompt of %s tokens does not fit in the KV cache of a replica, which holds %s: more replicas do not help.",
				amount(number(o.LongTokens)), amount(number(p.each(capacity.KV)))))
		}
	}
	s.Notes = append(s.Notes, fmt.Sprintf("Service rates of a replica are %s.", p.Rates.Source))
	if p.Rates.Extrapolated {
		s.Notes = append(s.Notes, "They are extrapolated: of requests of other lengths, or of higher load, than were measured.")
	}
	if p.CurveOpen {
		s.Notes = append(s.Notes, "At the highest load that was measured the objective still held: a replica may carry more than this.")
	}
	for _, r := range s.Rows {
		if r.Risk == Unknown && r.Resource != capacity.Requests {
			s.Notes = append(s.Notes, fmt.Sprintf("The capacity of %s is not known, so it can run out unseen.", r.Title))
		}
	}
	launch := &s.Outcomes[1]
	for i := range s.Outcomes {
		if o := &s.Outcomes[i]; o.PutOff > 0 && (o.Replicas < launch.Replicas || o.First == "" && launch.First != "") {
			s.Notes = append(s.Notes, fmt.Sprintf("Were all work put off by up to %s, the launch would take %s in place of %s: a plan that counts on a wider batch window hides that shortage.",
				span(float64(o.PutOff)*60), replicas(o.Replicas, o.Prefill), replicas(launch.Replicas, launch.Prefill)))
		}
	}
	if reserves := p.Reserves.String(); reserves != "" {
		s.Notes = append(s.Notes, "Replicas include a reserve: "+reserves+".")
	}
	if reserves := p.PrefillReserves.String(); p.Disaggregated && reserves != "" {
		s.Notes = append(s.Notes, "Prefill replicas include a reserve: "+reserves+".")
	}
	if p.Prices.Date == "" && p.GPUHourUSD > 0 {
		s.Notes = append(s.Notes, "Prices carry no date: set prices.date and prices.region.")
	} else if age, ok := p.Prices.Age(in.Today); ok && age > staleAfter {
		s.Notes = append(s.Notes, fmt.Sprintf("Prices are of %s, %.0f days old.", p.Prices.Date, age.Hours()/24))
	}
}

// staleAfter is the age of prices that gives a note.
const staleAfter = 90 * 24 * time.Hour
