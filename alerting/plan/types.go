package plan

import "github.com/forewarm/forewarm/forecaster/capacity"

// Mix is the cheapest set of replicas of several types for the launch.
type Mix struct {
	Role    capacity.Role `json:"role,omitempty"` // in a disaggregated pool
	Types   []MixType     `json:"types"`
	HourUSD number        `json:"usd_per_hour"`
	// Uniform is the cost of the cheapest single type; unknown if none is enough.
	Uniform number `json:"usd_per_hour_of_one_type"`
}

// MixType is one type of replica in a mix.
type MixType struct {
	Name     string `json:"name"`
	Replicas int    `json:"replicas"`
	HourUSD  number `json:"usd_per_hour"`
	Share    number `json:"share_of_traffic"` // capacity of one replica, as a share
	Binding  string `json:"binding"`
}

// mixFor is the mix of one role, or of all (AnyRole). It is nil if the pool has no types, or no mix within their bounds
// can serve the launch.
func mixFor(p *Pool, launch *Outcome, role capacity.Role) *Mix {
	if len(p.Types) == 0 {
		return nil
	}
	demand := map[string]float64{}
	for _, u := range launch.Uses {
		if r := resourceByName(u.Resource); u.Demand.Known() && (role == capacity.AnyRole || r != nil && r.servedBy(role)) {
			demand[u.Resource] = float64(u.Demand)
		}
	}
	failure := p.ReservesOf(role).Failure
	best, ok := capacity.CheapestMix(p.Types, demand, failure)
	if !ok {
		return nil
	}
	m := &Mix{Role: role, HourUSD: number(best.HourUSD), Uniform: unknown}
	for i, t := range p.Types {
		share, binding := t.Share(demand)
		m.Types = append(m.Types, MixType{Name: t.Name, Replicas: best.Replicas[i], HourUSD: number(t.HourUSD), Share: number(share), Binding: binding})
		if alone, ok := capacity.CheapestMix(p.Types[i:i+1], demand, failure); ok && (!m.Uniform.Known() || number(alone.HourUSD) < m.Uniform) {
			m.Uniform = number(alone.HourUSD)
		}
	}
	return m
}
