package report

import (
	"fmt"
	"strings"
)

// otherSettings is the table of what another setting would have cost, or only a note where none was tried.
func (p *Pool) otherSettings() grid {
	g := grid{Title: "What another setting would have cost", Note: p.OtherSettingsNote}
	if len(p.OtherSettings) > 0 {
		g.Head = []string{"setting", ">value now", ">other value", ">GPU-hours", ">saturated minutes"}
	}
	for _, x := range p.OtherSettings {
		g.Rows = append(g.Rows, []string{x.Setting, x.Now, x.Other, quantity(x.GPUHoursNow, "") + " → " + quantity(x.GPUHours, ""),
			fmt.Sprintf("%d → %d", x.SaturatedMinutesNow, x.SaturatedMinutes)})
	}
	return g
}

func otherSettings(b *strings.Builder, r *Report) {
	for i := range r.Pools {
		if g := r.Pools[i].otherSettings(); g.Note != "" {
			fmt.Fprintf(b, "\n## %s: what another setting would have cost\n\n%s\n", r.Pools[i].Pool, g.Note)
			if len(g.Rows) > 0 {
				table(b, g.Head, g.Rows)
			}
		}
	}
}
