package server

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/forecaster"
)

func TestAdvise(t *testing.T) {
	decided := time.Now()
	tests := map[string]struct {
		change func(s *Status, v *PoolView) // of a pool that is sound
		pool   string                       // "" is chat
		role   string                       // "" is all
		obey   bool
		after  time.Duration // since the decision came
		want   string        // of the error; "" is advice
	}{
		"sound":                   {},
		"just before it lapses":   {after: 15 * time.Minute},
		"advisory":                {change: func(_ *Status, v *PoolView) { v.Decision.Mode = alerting.Advisory }, want: "advisory: it would ask for 8 replicas"},
		"advisory, obeyed":        {change: func(_ *Status, v *PoolView) { v.Decision.Mode = alerting.Advisory }, obey: true},
		"stale":                   {change: func(_ *Status, v *PoolView) { v.Decision.Stale = true }, obey: true, want: "stale"},
		"cold":                    {change: func(_ *Status, v *PoolView) { v.Decision.Confidence = forecaster.Cold }, obey: true, want: "less than an hour"},
		"undecided":               {change: func(_ *Status, v *PoolView) { v.Decision = nil }, want: "nothing is decided"},
		"no ticks any more":       {after: 15*time.Minute + time.Second, want: "15m1s old and lapsed after 15m0s"},
		"behind its stream":       {change: func(s *Status, _ *PoolView) { s.Clock = "wall" }, want: "lapsed at 2026-11-16T09:15:00Z"},
		"unknown pool":            {pool: "chatt", want: "there are batch, chat"},
		"no pool":                 {pool: "", change: func(_ *Status, v *PoolView) { v.Pool = "gone" }, want: "not known"},
		"decode of a pool in one": {role: RoleDecode, want: `no role "decode"`},
		"prefill":                 {change: disaggregate, role: RolePrefill},
		"decode":                  {change: disaggregate, role: RoleDecode},
		"unknown role":            {role: "decoder", want: `no role "decoder"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := fullReader()
			r.status.Clock = "event"
			v := &r.pools[1]
			v.Decided, v.Decision.Mode = decided, alerting.Active
			if tt.change != nil {
				tt.change(&r.status, v)
			}
			pool, role := "chat", RoleAll
			if tt.pool != "" {
				pool = tt.pool
			}
			if tt.role != "" {
				role = tt.role
			}
			advice, err := Advise(r, pool, role, tt.obey, decided.Add(tt.after))
			if tt.want == "" {
				want := 8
				if role == RolePrefill {
					want = 3
				}
				if err != nil || advice.Replicas != want || advice.View != v {
					t.Errorf("%d, %v", advice.Replicas, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			_, unknown := errors.AsType[*UnknownPool](err)
			if _, withheld := errors.AsType[*Withheld](err); withheld == unknown {
				t.Errorf("%T", err)
			}
		})
	}
}

func disaggregate(_ *Status, v *PoolView) { v.Decision.ByRole = &alerting.Roles{Prefill: 3, Decode: 8} }

// TestRolesAreExported wants the replicas of each role of a disaggregated pool, and of a pool in one only all of them.
func TestRolesAreExported(t *testing.T) {
	out := fullOutput()
	out.Decisions[0].ByRole = &alerting.Roles{Prefill: 3, Decode: 8}
	text := string(render(out, families))
	for line, want := range map[string]bool{
		`forewarm_desired_replicas{pool="chat",role="all"} 8`: true, `forewarm_desired_replicas{pool="chat",role="decode"} 8`: true,
		`forewarm_desired_replicas{pool="chat",role="prefill"} 3`: true, `forewarm_desired_replicas{pool="batch",role="prefill"}`: false,
	} {
		if strings.Contains(text, line) != want {
			t.Errorf("%s is there: %t", line, !want)
		}
	}
}
