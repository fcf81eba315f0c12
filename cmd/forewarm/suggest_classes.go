package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/backtest"
	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
)

const (
	// rareShare is the share of a pool's tokens below which a class is rare.
	rareShare = 0.01
	// mostRare classes, the heaviest of the rare, are tried as one.
	mostRare = 8
	// A tenant is tried apart that has between leastApart and mostApart of the tokens of a class that has leastDivided or
	// more of the pool's.
	leastApart, mostApart, leastDivided = 0.2, 0.8, 0.05
	// mostDivided classes, those with the heaviest such tenants, are tried divided.
	mostDivided = 2
	// leastKnown is the share of the period's minutes in which a tenant must be known.
	leastKnown = 0.8
)

// pastClasses is what a history keeps of a pool's classes, in tokens/s a minute from start on: prompt and output tokens.
type pastClasses struct {
	pool    *capacity.Pool
	start   time.Time
	from    int                             // the first minute of the period
	classes map[string][]float64            // by class
	tenants map[string]map[string][]float64 // by class, then tenant; "" is all others
}

// add counts a dimension of a class's demand where that is tokens.
func (p *pastClasses) add(class, dimension string, values []float64) {
	if dimension != features.DimPrefill && dimension != features.DimCached && dimension != features.DimDecode || class == features.OverflowClass {
		return
	}
	sum := p.classes[class]
	if sum == nil {
		p.classes[class] = slices.Clone(values)
		return
	}
	addKnown(sum, values)
}

// addTenant takes the tokens of a tenant.
func (p *pastClasses) addTenant(class, tenant string, values []float64) {
	if p.tenants[class] == nil {
		p.tenants[class] = map[string][]float64{}
	}
	p.tenants[class][tenant] = slices.Clone(values)
}

// addKnown adds values to a sum: what is not known adds nothing.
func addKnown(sum, values []float64) {
	for i, v := range values {
		if math.IsNaN(sum[i]) {
			sum[i] = v
		} else if !math.IsNaN(v) {
			sum[i] += v
		}
	}
}

// tokens of the period, and the share of its minutes in which they are known.
func (p *pastClasses) tokens(values []float64) (sum, known float64) {
	for _, v := range values[p.from:] {
		if !math.IsNaN(v) {
			sum += v
			known++
		}
	}
	return sum, known / float64(max(len(values)-p.from, 1))
}

// division is a change of classes that is tried.
type division struct {
	merge  bool
	class  string   // that is divided, or that others become
	others []string // that become one, or the one tenant that comes apart
	parts  backtest.Parts
	*backtest.Division
}

// divisions are what there is to try; left says what is not tried.
func (p *pastClasses) divisions(learned func(class string) bool) (list []*division, left string) {
	weights, pool := map[string]float64{}, 0.0
	for class, values := range p.classes {
		weights[class], _ = p.tokens(values)
		pool += weights[class]
	}
	order := slices.SortedFunc(maps.Keys(weights), func(a, b string) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(a, b)) })
	rare := slices.DeleteFunc(slices.Clone(order), func(class string) bool {
		return weights[class] == 0 || weights[class] >= rareShare*pool || learned(class)
	})
	if len(rare) > mostRare {
		left = fmt.Sprintf(" (%s not tried)", count(len(rare)-mostRare, "more rare class"))
		rare = rare[:mostRare]
	}
	if len(rare) > 1 {
		d := &division{merge: true, class: p.free("rare"), others: rare}
		for _, class := range rare {
			d.parts.Demand = append(d.parts.Demand, slices.Clone(p.classes[class]))
		}
		list = append(list, d)
	}
	var apart []*division
	for _, class := range order {
		if weights[class] < leastDivided*pool || learned(class) {
			continue
		}
		if d := p.heaviestTenant(class); d != nil {
			apart = append(apart, d)
		}
	}
	list = append(list, apart[:min(len(apart), mostDivided)]...)
	return slices.DeleteFunc(list, func(d *division) bool { return !p.complete(&d.parts) }), left
}

// heaviestTenant is the division of a class by the tenant who is its heaviest, nil where none can come apart.
func (p *pastClasses) heaviestTenant(class string) (d *division) {
	tenants := p.tenants[class]
	all, heaviest := 0.0, 0.0
	for _, values := range tenants {
		tokens, _ := p.tokens(values)
		all += tokens
	}
	for _, tenant := range slices.Sorted(maps.Keys(tenants)) {
		tokens, known := p.tokens(tenants[tenant])
		if tenant == "" || known < leastKnown || tokens < leastApart*all || tokens > mostApart*all || tokens <= heaviest {
			continue
		}
		rest := slices.Repeat([]float64{math.NaN()}, len(tenants[tenant]))
		for other, values := range tenants {
			if other != tenant {
				addKnown(rest, values)
			}
		}
		heaviest = tokens
		d = &division{class: class, others: []string{tenant}}
		d.parts.Demand = [][]float64{slices.Clone(tenants[tenant]), rest}
	}
	return d
}

// free is a name that no class has.
func (p *pastClasses) free(name string) string {
	for n, base := 2, name; p.classes[name] != nil; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// complete cuts parts to where any is known; false when too little is left.
func (p *pastClasses) complete(parts *backtest.Parts) bool {
	first := len(parts.Demand[0])
	for _, values := range parts.Demand {
		if i := slices.IndexFunc(values, func(v float64) bool { return !math.IsNaN(v) }); i >= 0 {
			first = min(first, i)
		}
	}
	for i := range parts.Demand {
		parts.Demand[i] = parts.Demand[i][first:]
	}
	parts.Pool, parts.Zone = p.pool.Name, p.pool.Zone
	parts.Start, parts.From = p.start.Add(time.Duration(first)*features.Minute), max(p.from-first, int(leastLearned/features.Minute))
	return parts.Days() >= 2
}

// series is how many series a division takes to be forecast again.
func (d *division) series() int { return len(d.parts.Demand) + 1 }

// better says whether the change is worth it.
func (d *division) better(tried int) bool {
	if d.merge {
		return d.AsOneIsNoWorse()
	}
	return d.ApartIsBetter(tried)
}

// losses are those before the change, and with it.
func (d *division) losses() (before, after backtest.Loss) {
	before, after = backtest.Mean(d.AsOne), backtest.Mean(d.Apart)
	if d.merge {
		before, after = after, before
	}
	return before, after
}

// String says what is tried, and what came of it.
func (d *division) String() string {
	before, after := d.losses()
	came := fmt.Sprintf("(%.4g → %.4g, maximum %.4g → %.4g)", before.Minutes, after.Minutes, before.Window, after.Window)
	if d.merge {
		return fmt.Sprintf("%s as one %s", strings.Join(d.others, ", "), came)
	}
	return fmt.Sprintf("tenant %s apart from the rest of %s %s", d.others[0], d.class, came)
}

// tryClasses forecasts the period again with other classes, and puts into the report what did better. before is what the
// pool's replicas came to, on which classes have no effect.
func (p *pastClasses) tryClasses(ctx context.Context, list []*division, left string, rules []features.Rule, perClass int, before report.Effect, to *report.Pool, w *work) error {
	if len(list) == 0 {
		none := " No class rule was tried: that takes two days after one that models learn from, and two classes with less than 1 % of the pool's tokens each, or a tenant with 20 to 80 % of a class."
		to.SuggestionsTried += none
		to.TriedHow += none
		return nil
	}
	tried, chosen := make([]string, len(list)), 0
	for i, d := range list {
		var err error
		if d.Division, err = backtest.Regroup(ctx, &d.parts, w.part(d.series())); err != nil {
			return err
		}
		s := p.regrouped(d, rules, perClass, before)
		x := report.Tried{Key: s.Key, From: s.From, To: d.becomes(), Expected: s.Expected, Suggested: d.better(len(list))}
		if x.Suggested {
			to.Suggestions = append(to.Suggestions, s)
			chosen++
		}
		tried[i], to.Tried = d.String(), append(to.Tried, x)
	}
	none := ""
	if chosen == 0 {
		none = " None is suggested."
	}
	how := " Rare classes are suggested as one where that is no worse in either half, a tenant apart where that saves 2 % in all, something in both halves, and in 95 % of bootstrap draws of days, corrected for " +
		count(len(list), "trial") + "." +
		" The pool's total has a forecast of its own, so that classes move neither it nor replicas. Not tried: parts by prompt length, for of lengths a history keeps quantiles, and not the tokens of the calls beyond one."
	to.SuggestionsTried += fmt.Sprintf(" Of classes, with the pinball loss in tokens/s of what they add up to, minutes 15 to 30 ahead: %s%s.%s", strings.Join(tried, "; "), left, none) + how
	to.TriedHow += how
	if left != "" {
		to.TriedHow += " There are " + strings.Trim(left, " ()") + "."
	}
	return nil
}

// becomes says what a division makes of classes.
func (d *division) becomes() string {
	if d.merge {
		return "as one"
	}
	return "tenant " + d.others[0] + " apart"
}

// regrouped is the suggestion of a division.
func (p *pastClasses) regrouped(d *division, rules []features.Rule, perClass int, before report.Effect) report.Suggestion {
	was, is := d.losses()
	e := before
	e.Forecast = &report.ForecastEffect{
		Unit: "tokens/s", MinutesBefore: report.Number(was.Minutes), MinutesAfter: report.Number(is.Minutes),
		WindowBefore: report.Number(was.Window), WindowAfter: report.Number(is.Window),
	}
	s := report.Suggestion{
		Key: "classify.rules", Expected: e,
		How: fmt.Sprintf("%s forecast again both ways, after models had learned from the %.3g hours before.", count(d.parts.Days(), "day"), float64(d.parts.From)/60),
	}
	if d.merge {
		e.Forecast.SeriesBefore, e.Forecast.SeriesAfter = len(d.others)*perClass, perClass
		s.From, s.To = strings.Join(d.others, ", ")+" apart", rulesYAML(joining(rules, p.pool.Name, d.class, d.others))
		s.Why = "Each has less than 1 % of the tokens, and together they are forecast no worse as one."
		s.Note = "Put before other rules. Drivers, alerts and reports then name them as one."
		return s
	}
	e.Forecast.SeriesBefore, e.Forecast.SeriesAfter = perClass, 2*perClass
	tenant := d.others[0]
	s.From, s.To = d.class+" as one", rulesYAML(dividing(rules, p.pool.Name, d.class, tenant, p.free(partName(d.class, tenant))))
	s.Why = fmt.Sprintf("Tenant %s behaves unlike the rest of %s.", tenant, d.class)
	s.Note = "Put before other rules. In sample: these days chose it, and the next may differ. Of tenants, tokens are known as they were reported."
	return s
}

// partName is the name of a class for a part of another.
func partName(class, tenant string) string {
	name := class + "-" + tenant
	if most := 64; len(name) > most || strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return class + "-apart"
	}
	return name
}
