package backtest

import (
	"cmp"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strings"
)

// own is Forewarm's name in tables.
const own = "Forewarm"

const comparisonHead = `## Accuracy compared with other forecasters

Quantile loss (mean pinball at 50, 80, 90, 95 and 99 %%), relative to that of the last value with the empirical quantiles of its
errors (= 1.00; lower is better). It is measured at %d origins from the last third of each trace, the same for all, for minutes
15 to 30 and for the largest of them. For forecasters that do not forecast the largest, it is the largest of their quantiles.
Forewarm's figures come from its whole pipeline. The others have the same minutes, and are fitted again at each origin on a day
to a week of history. gostack is the prototype of Forewarm's models. With so few origins, differences below 0.03 mean little.
Made by ` + "`make bench-accuracy TRACES=… [PEERS=…]`" + ` with build %s; the others' figures are kept in ` + "`backtest/testdata/peers.csv`" + `.
`

// comparison writes the section: a table of forecasters, the claims and whether they hold, tables of series, the series
// where Forewarm loses, and the onset alarms. kept are the losses of other forecasters at more origins.
func comparison(all []*peerSeries, fs figures, kept map[[2]string][]lossAt, onsets []onset, alarms map[string]peerAlarm) string {
	var b strings.Builder
	fmt.Fprintf(&b, comparisonHead, peerOrigins, commit())
	of := map[string]map[string]figure{} // by series and forecaster
	for _, s := range all {
		f := s.own.figure(own)
		of[s.name()] = map[string]figure{own: f}
		if s.own.origins != len(s.origins) {
			fmt.Fprintf(&b, "\n**%s: forecasts at %d of %d origins.**\n", s.name(), s.own.origins, len(s.origins))
		}
		for _, x := range fs {
			if x.series == s.name() && math.Abs(x.mean/f.mean-1) < 1e-4 { // other means are of another version of the trace
				of[s.name()][x.peer] = x
			}
		}
	}
	peers := ranked(all, of)
	forecasters(&b, len(all), peers)
	claims(&b, all, of, peers)
	eachSeries(&b, all, of)
	everywhere(&b, all, of, kept)
	onsetAlarms(&b, onsets, alarms)
	return b.String()
}

func byPinball(f figure) float64 { return f.pinball }
func byPeak(f figure) float64    { return f.peak }

// versus has the geometric means of a forecaster over its series, and those of Forewarm over the same series.
type versus struct {
	peer                string
	point               bool
	series              int
	pinball, peak, wape float64
	ownPinball, ownPeak float64
	ownWAPE             float64
}

// ranked returns the forecasters, sorted by their loss in minutes 15 to 30 relative to Forewarm's.
func ranked(all []*peerSeries, of map[string]map[string]figure) []versus {
	sums := map[string]*versus{}
	for _, s := range all {
		mine := of[s.name()][own]
		for name, f := range of[s.name()] {
			v := sums[name]
			if v == nil {
				v = &versus{peer: name}
				sums[name] = v
			}
			v.series++
			v.point = v.point || f.point
			for _, x := range []struct {
				sum *float64
				is  float64
			}{{&v.pinball, f.pinball}, {&v.peak, f.peak}, {&v.wape, f.wape}, {&v.ownPinball, mine.pinball}, {&v.ownPeak, mine.peak}, {&v.ownWAPE, mine.wape}} {
				*x.sum += math.Log(max(x.is, leastRatio))
			}
		}
	}
	var out []versus
	for _, v := range sums {
		for _, x := range []*float64{&v.pinball, &v.peak, &v.wape, &v.ownPinball, &v.ownPeak, &v.ownWAPE} {
			*x = math.Exp(*x / float64(v.series))
		}
		out = append(out, *v)
	}
	slices.SortFunc(out, func(a, b versus) int {
		return cmp.Or(cmp.Compare(a.pinball/a.ownPinball, b.pinball/b.ownPinball), cmp.Compare(a.peer, b.peer))
	})
	return out
}

// leastRatio is the lower bound of ratios in geometric means. Without it, one series without traffic would dominate
// them.
const leastRatio = 0.1

func forecasters(b *strings.Builder, series int, peers []versus) {
	fmt.Fprintf(b, "\nGeometric means over the series that each forecaster was run on. In brackets: Forewarm's on the same series. (* has no quantiles: judge it by the error of its median.)\n"+
		"\n| forecaster | series of %d | minutes 15–30 | largest of them | error of the median |\n|---|---:|---:|---:|---:|\n", series)
	for _, v := range peers {
		name := v.peer
		if v.point {
			name += " \\*"
		}
		if v.peer == own {
			fmt.Fprintf(b, "| **%s** | %d | **%.3f** | **%.3f** | **%.3f** |\n", name, v.series, v.pinball, v.peak, v.wape)
			continue
		}
		fmt.Fprintf(b, "| %s | %d | %.3f (%.3f) | %.3f (%.3f) | %.3f (%.3f) |\n", name, v.series, v.pinball, v.ownPinball, v.peak, v.ownPeak, v.wape, v.ownWAPE)
	}
}

// claims writes Forewarm's claims, and whether they hold.
func claims(b *strings.Builder, all []*peerSeries, of map[string]map[string]figure, peers []versus) {
	const better, behind = 0.05, 0.03
	var short []string
	for _, v := range peers {
		if v.peer != own && v.ownPinball > (1-better)*v.pinball {
			short = append(short, fmt.Sprintf("%s (%+.1f %%)", v.peer, 100*(v.ownPinball/v.pinball-1)))
		}
	}
	b.WriteString("\n- At least 5 % better than every other forecaster in geometric mean, minutes 15–30: ")
	if len(short) == 0 {
		b.WriteString("holds.\n")
	} else {
		fmt.Fprintf(b, "does **not** hold against %s.\n", strings.Join(short, ", "))
	}
	for _, x := range []struct {
		what string
		at   func(f figure) float64
	}{{"minutes 15–30", byPinball}, {"largest of them", byPeak}} {
		var lost []string
		wins, compared := 0, 0
		for _, s := range all {
			best, mine := bestOther(of[s.name()], x.at), of[s.name()][own]
			if best == nil {
				continue
			}
			compared++
			if loss := x.at(mine)/x.at(*best) - 1; loss > behind {
				lost = append(lost, fmt.Sprintf("%s %+.0f %% (%s)", s.name(), 100*loss, best.peer))
			} else if loss <= 0 {
				wins++
			}
		}
		fmt.Fprintf(b, "- At most 3 %% worse than the best of the others on each series, %s: ", x.what)
		if len(lost) == 0 {
			b.WriteString("holds")
		} else {
			fmt.Fprintf(b, "does **not** hold on %d of %d series: %s", len(lost), compared, strings.Join(lost, ", "))
		}
		fmt.Fprintf(b, ". Forewarm is best on %d of %d.\n", wins, compared)
	}
	worst, at := 0.0, ""
	for _, s := range all {
		if f := of[s.name()][own]; f.pinball > worst {
			worst, at = f.pinball, s.name()
		}
	}
	fmt.Fprintf(b, "- At most 2 %% worse than the last value on each series: ")
	if worst <= 1.02 {
		b.WriteString("holds")
	} else {
		b.WriteString("does **not** hold")
	}
	fmt.Fprintf(b, "; the worst is %.3f, %s.\n", worst, at)
}

// bestOther returns the best forecaster of a series that is not Forewarm, nil if there is none.
func bestOther(of map[string]figure, at func(f figure) float64) *figure {
	var best *figure
	for name, f := range of {
		if name != own && (best == nil || at(f) < at(*best) || at(f) == at(*best) && f.peer < best.peer) {
			best = &f
		}
	}
	return best
}

// eachSeries writes the losses of Forewarm and of the best other forecaster on each series.
func eachSeries(b *strings.Builder, all []*peerSeries, of map[string]map[string]figure) {
	b.WriteString("\nEach series (bold: better)\n\n| series | minutes 15–30: Forewarm | best other | largest: Forewarm | best other |\n|---|---:|---:|---:|---:|\n")
	for _, s := range all {
		fmt.Fprintf(b, "| %s |", s.name())
		for _, at := range []func(f figure) float64{byPinball, byPeak} {
			mine, best := at(of[s.name()][own]), bestOther(of[s.name()], at)
			switch {
			case best == nil:
				fmt.Fprintf(b, " %.2f | – |", mine)
			case at(*best) < mine:
				fmt.Fprintf(b, " %.2f | **%.2f** %s |", mine, at(*best), best.peer)
			default:
				fmt.Fprintf(b, " **%.2f** | %.2f %s |", mine, at(*best), best.peer)
			}
		}
		b.WriteString("\n")
	}
}

// commit is the short id of the build's commit.
func commit() string {
	id, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}
