package backtest

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/value"
)

var (
	compareAlarms = flag.Bool("alarms", false, "count the saturations that alarms announce on the traces, with pools of four sizes each")
	alarmThird    = flag.Int("third", 3, "count them in this `third` of each trace, 2 or 3; pools are sized for the traffic before it")
)

// alarmPools returns the pools of policyPools that have a trace, single clients of a log of two weeks as pools, and a
// load balancer.
func alarmPools() []policyPool {
	pools := slices.DeleteFunc(slices.Clone(policyPools), func(p policyPool) bool { return p.make != nil })
	for _, class := range []string{"m-mid/c30", "m-mid/c101", "m-large/c61", "m-small/c31"} {
		pools = append(pools, policyPool{name: "clients " + class, file: "servegen_clients_10min.csv.gz", only: class})
	}
	for _, class := range []string{"m-mid/c30", "m-large/c61"} {
		pools = append(pools, policyPool{name: "sgA " + class, file: "servegen_sgA_14d.csv.gz", only: class})
	}
	return append(pools, policyPool{name: "ELB", file: "nab_seasonal.csv.gz", only: "elb_request_count_8c0756"})
}

// alarmShares has a pool size for each element: it is enough for this share of the quarter hours.
var alarmShares = []float64{.8, .95, .98}

// TestAlarmBenchmark prints how many saturations alarms announced with the configured threshold, and how many they
// would have announced with thresholds that are chosen in hindsight.
func TestAlarmBenchmark(t *testing.T) {
	if *traceDir == "" || !*compareAlarms {
		t.Skip("give -traces and -alarms, as make bench-alarms does")
	}
	chosen, err := regexp.Compile(*comparePools)
	if err != nil {
		t.Fatal(err)
	}
	var rows []alarmRow
	for _, p := range alarmPools() {
		if !chosen.MatchString(p.name) {
			continue
		}
		sizes, err := p.alarms(t, *alarmThird)
		if err != nil {
			t.Errorf("%s: %v", p.name, err)
			continue
		}
		rows = append(rows, alarmRow{p.name, sizes})
		t.Logf("%s: %+v", p.name, rows[len(rows)-1].of(configuredThreshold))
	}
	t.Logf("third %d\n%s", *alarmThird, alarmSection(rows))
}

// alarms judges the alarms in a third of the pool's trace, for each pool size.
func (p *policyPool) alarms(t *testing.T, third int) (all []*sizedAlarms, err error) {
	r, err := newRunner(t.Context(), RunConfig{
		Trace: p.path(t, 0), Options: Options{Start: p.start, Only: p.only}, Seed: 1, PeakReplicas: policyReplicas,
		Warmup:    capacity.Lag{P50: 6 * time.Minute, P90: 12 * time.Minute},
		ScoreFrom: float64(third-1) / 3, ScoreTo: float64(third) / 3,
	})
	if err != nil {
		return nil, err
	}
	need := r.scene(r.own.pool).Need
	for _, part := range alarmShares {
		r.fixedPools = append(r.fixedPools, newFixedPool(r.pool, r.cfg.Decision, need, r.minutes(r.scores.from), part, r.scores.from))
	}
	if err := r.run(t.Context()); err != nil {
		return nil, err
	}
	for _, w := range r.fixedPools {
		all = append(all, w.inHindsight())
	}
	return all, nil
}

// alarmThresholds are the thresholds that are tried.
var alarmThresholds = []float64{.02, .05, .1, .15, .2, .25, .3, .4, .5, .6, .7, .8, .9, .95}

// curve judges the alarms at each of alarmThresholds.
func (w *fixedPool) curve(onsets []int) (all []AlarmPoint) {
	for _, t := range alarmThresholds {
		all = append(all, w.score(t, onsets))
	}
	return all
}

// falseShare is the largest share of quiet minutes in which alarms may be active. Peers are compared at it.
const falseShare = .05

// highestRecall returns the point of the curve with the highest recall and alarms in at most falseShare of the quiet
// minutes. Of equal points it takes the one with the highest threshold. It returns nil when there is none.
func (w *fixedPool) highestRecall(onsets []int) (best *AlarmPoint) {
	for _, t := range alarmThresholds {
		p := w.score(t, onsets)
		if w.alarmShare(w.episodes(t)) <= falseShare && (best == nil || p.Recall >= best.Recall) {
			best = &p
		}
	}
	return best
}

// alarmShare returns the share of quiet minutes in which an alarm is active. A minute is quiet when no saturation
// follows within maxNoticeMinutes. O(minutes).
func (w *fixedPool) alarmShare(episodes []episode) float64 {
	quiet, active, next := 0, 0, len(w.need)+maxNoticeMinutes // next is the first saturated minute from m on
	for m := len(w.need) - 1; m >= 0; m-- {
		if w.saturated(m) {
			next = m
		}
		for len(episodes) > 0 && episodes[len(episodes)-1].from > m {
			episodes = episodes[:len(episodes)-1]
		}
		if next-m >= maxNoticeMinutes {
			quiet++
			if len(episodes) > 0 && m < episodes[len(episodes)-1].to {
				active++
			}
		}
	}
	return value.Share(float64(active), float64(quiet))
}

// knownLevelAlarms returns w with the probabilities of a forecaster that knows the level of each future minute, and the
// spread σ of single minutes about it on the square-root scale. Minutes are independent, so the probability is
// 1 − Π Φ((√replicas − √level)/σ) over the warning window.
func (w *fixedPool) knownLevelAlarms() *fixedPool {
	level := make([]float64, len(w.need)) // the mean of the quarter hour around each minute
	for m := range level {
		around := w.need[max(0, m-7):min(len(level), m+8)]
		for _, x := range around {
			level[m] += x / float64(len(around))
		}
	}
	square := 0.
	for m, need := range w.need {
		e := math.Sqrt(need) - math.Sqrt(level[m])
		square += e * e / float64(len(w.need))
	}
	out := *w
	out.probability = make([]float64, len(w.need))
	window := int(forecaster.WarningWindow(forecaster.LeadTime(&w.pool.Warmup)) / features.Minute)
	for m := range out.probability {
		enough := 1. // the probability that the replicas are enough in the whole window
		for _, x := range level[m:min(m+window, len(level))] {
			enough *= distuv.UnitNormal.CDF((math.Sqrt(float64(w.replicas)) - math.Sqrt(x)) / max(math.Sqrt(square), 1e-9))
		}
		out.probability[m] = 1 - enough
	}
	return &out
}

// sizedAlarms are the alarms of a pool of one size, and the points that are chosen in hindsight.
type sizedAlarms struct {
	*Alarms
	curve        []AlarmPoint // by alarmThresholds
	atFalseShare *AlarmPoint  // the highestRecall
	levelKnown   *AlarmPoint  // the highestRecall of a forecaster that knows the level
}

func (w *fixedPool) inHindsight() *sizedAlarms {
	onsets := w.onsets()
	return &sizedAlarms{w.alarms(), w.curve(onsets), w.highestRecall(onsets), w.knownLevelAlarms().highestRecall(onsets)}
}

// alarmRow is one trace of the table.
type alarmRow struct {
	pool  string
	sizes []*sizedAlarms
}

// alarmSum is the sum of the alarms of several pools. hourly counts a false alarm again in each hour in which it is
// active.
type alarmSum struct{ onsets, announced, falses, hourly, weeks float64 }

// add adds a point of a pool.
func (s *alarmSum) add(a *sizedAlarms, p *AlarmPoint) {
	n := float64(a.Onsets)
	s.onsets, s.weeks = s.onsets+n, s.weeks+float64(a.Weeks)
	if p == nil || math.IsNaN(float64(p.Threshold)) {
		return
	}
	if n > 0 {
		s.announced += n * float64(p.Recall)
	}
	s.falses += float64(p.FalsePerWeek * a.Weeks)
	s.hourly += float64(p.HourlyFalsePerWeek * a.Weeks)
}

func (s *alarmSum) merge(o alarmSum) {
	s.onsets, s.announced, s.falses, s.hourly, s.weeks = s.onsets+o.onsets, s.announced+o.announced, s.falses+o.falses, s.hourly+o.hourly, s.weeks+o.weeks
}

func (s alarmSum) String() string {
	announced := "–"
	if s.onsets > 0 {
		announced = fmt.Sprintf("%.0f (%.0f %%)", s.announced, 100*s.announced/s.onsets)
	}
	return fmt.Sprintf("%s, %.1f, %.1f", announced, value.Share(s.falses, s.weeks), value.Share(s.hourly, s.weeks))
}

// Ways to choose a threshold.
func configuredThreshold(a *sizedAlarms) *AlarmPoint { return &a.Operating }
func withinShare(a *sizedAlarms) *AlarmPoint         { return cmp.Or(a.atFalseShare, &AlarmPoint{}) }
func knownLevel(a *sizedAlarms) *AlarmPoint          { return cmp.Or(a.levelKnown, &AlarmPoint{}) }

func fixedThreshold(threshold float64) func(*sizedAlarms) *AlarmPoint {
	return func(a *sizedAlarms) *AlarmPoint { return &a.curve[slices.Index(alarmThresholds, threshold)] }
}

// lowestWithin chooses for each pool, in hindsight, the lowest threshold with at most so many false alarms a week.
func lowestWithin(falsePerWeek float64) func(*sizedAlarms) *AlarmPoint {
	return func(a *sizedAlarms) *AlarmPoint {
		i := slices.IndexFunc(a.curve, func(p AlarmPoint) bool { return float64(p.HourlyFalsePerWeek) <= falsePerWeek })
		if i < 0 {
			return nil
		}
		return &a.curve[i]
	}
}

// of adds up the sizes of a trace. point chooses the point of a pool.
func (r *alarmRow) of(point func(*sizedAlarms) *AlarmPoint) (s alarmSum) {
	for _, a := range r.sizes {
		s.add(a, point(a))
	}
	return s
}

// alarmsOf adds up traces.
func alarmsOf(rows []alarmRow, point func(*sizedAlarms) *AlarmPoint) (s alarmSum) {
	for i := range rows {
		s.merge(rows[i].of(point))
	}
	return s
}

// bestFixed returns the lowest threshold, the same for all pools, with at most so many false alarms a week on average.
// The lowest announces the most.
func bestFixed(rows []alarmRow, falsePerWeek float64) float64 {
	for _, t := range alarmThresholds {
		if s := alarmsOf(rows, fixedThreshold(t)); s.hourly <= falsePerWeek*s.weeks {
			return t
		}
	}
	return alarmThresholds[len(alarmThresholds)-1]
}

// acceptedFalsePerWeek is the accepted number of false alarms a week.
const acceptedFalsePerWeek = 10.

// alarmSection writes the table, and below it the 95 % bootstrap intervals of the sums.
func alarmSection(rows []alarmRow) string {
	fixed := bestFixed(rows, acceptedFalsePerWeek)
	ways := []struct {
		name  string
		point func(*sizedAlarms) *AlarmPoint
	}{
		{"configured threshold", configuredThreshold}, {fmt.Sprintf("%g for all", fixed), fixedThreshold(fixed)},
		{fmt.Sprintf("each pool's lowest with %g false a week", acceptedFalsePerWeek), lowestWithin(acceptedFalsePerWeek)},
		{"each pool's best at 5 % of quiet minutes", withinShare}, {"level known, at 5 % of quiet minutes", knownLevel},
	}
	var b strings.Builder
	b.WriteString("Saturations announced in time; false alarms a week; false alarms a week when an active alarm counts again each hour. All thresholds but the configured one are chosen in hindsight.\n\n| | saturations, weeks |")
	for _, w := range ways {
		fmt.Fprintf(&b, " %s |", w.name)
	}
	b.WriteString("\n|---|---|" + strings.Repeat("---|", len(ways)) + "\n")
	for _, r := range append(slices.Clone(rows), alarmRow{pool: "all"}) {
		of := []alarmRow{r}
		if r.sizes == nil {
			of = rows
		}
		total := alarmsOf(of, configuredThreshold)
		fmt.Fprintf(&b, "| %s | %.0f, %.1f |", r.pool, total.onsets, total.weeks)
		for _, w := range ways {
			fmt.Fprintf(&b, " %s |", alarmsOf(of, w.point))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for i, w := range ways {
		lo, hi := interval(rows, func(rows []alarmRow) float64 { s := alarmsOf(rows, w.point); return value.Share(s.announced, s.onsets) })
		fmt.Fprintf(&b, "%s: in time %.0f to %.0f %%", w.name, 100*lo, 100*hi)
		if i > 0 {
			lo, hi = interval(rows, func(rows []alarmRow) float64 {
				s, l := alarmsOf(rows, w.point), alarmsOf(rows, configuredThreshold)
				return value.Share(l.announced-s.announced, s.onsets)
			})
			fmt.Fprintf(&b, "; the configured threshold announces %+.0f to %+.0f points more", 100*lo, 100*hi)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// interval returns the 95 % bootstrap interval of a number (Efron 1979). Each draw has as many traces, with
// replacement.
func interval(rows []alarmRow, of func([]alarmRow) float64) (lo, hi float64) {
	const draws = 2000
	rng := rand.New(rand.NewPCG(1, 2))
	var all []float64
	for range draws {
		drawn := make([]alarmRow, len(rows))
		for i := range drawn {
			drawn[i] = rows[rng.IntN(len(rows))]
		}
		if x := of(drawn); !math.IsNaN(x) {
			all = append(all, x)
		}
	}
	if len(all) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(all)
	return all[len(all)/40], all[len(all)-1-len(all)/40]
}

// TestAlarmSums: sums over pools are weighted by their saturations and weeks.
func TestAlarmSums(t *testing.T) {
	pool := func(onsets int, recall, hourly Number) *sizedAlarms {
		a := &sizedAlarms{Alarms: &Alarms{Onsets: onsets, Weeks: .5, Operating: AlarmPoint{Recall: recall, HourlyFalsePerWeek: hourly}}}
		for i, threshold := range alarmThresholds {
			a.curve = append(a.curve, AlarmPoint{Threshold: Number(threshold), Recall: recall / Number(i+1), HourlyFalsePerWeek: hourly * Number(len(alarmThresholds)-i)})
		}
		a.atFalseShare = &AlarmPoint{Threshold: Number(math.NaN())}
		return a
	}
	none := pool(0, Number(math.NaN()), 4)
	rows := []alarmRow{{"a", []*sizedAlarms{pool(8, .5, 2), none}}, {"b", []*sizedAlarms{pool(2, 1, 0)}}}
	if got := alarmsOf(rows, configuredThreshold); got != (alarmSum{onsets: 10, announced: 6, hourly: 3, weeks: 1.5}) {
		t.Errorf("%+v", got)
	}
	if got := alarmsOf(rows, withinShare); got != (alarmSum{onsets: 10, weeks: 1.5}) {
		t.Errorf("without a threshold below the false share: %+v", got)
	}
	// At the i-th threshold from the end there are 3·i false alarms in 1.5 weeks.
	if got, want := bestFixed(rows, 10), alarmThresholds[len(alarmThresholds)-5]; got != want {
		t.Errorf("the best threshold for all is %g, want %g", got, want)
	}
	if got := rows[0].of(lowestWithin(4)); got.hourly != 2*.5*2+4*.5 {
		t.Errorf("the lowest with 4 false a week: %+v, want 2 steps of the first and 1 of the second", got)
	}
	lo, hi := interval(rows, func(rows []alarmRow) float64 { s := alarmsOf(rows, configuredThreshold); return s.announced / s.onsets })
	if lo != .5 || hi != 1 {
		t.Errorf("the interval is %g to %g, want 0.5 to 1", lo, hi)
	}
	if table := alarmSection(rows); !strings.Contains(table, "| all | 10, 1.5 | 6 (60 %), 0.0, 2.0 |") {
		t.Error(table)
	}
}
