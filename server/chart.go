package server

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/internal/draw"
)

// The drawings, in SVG user units, and the minutes they span around the forecast's origin.
const (
	wideWidth, wideHeight = 940.0, 240.0
	halfWidth, halfHeight = 460.0, 190.0

	pastMinutes, futureMinutes float64 = HistoryMinutes, forecaster.Horizon
)

const (
	// highestLimit is how far above demand, as a factor, a capacity line is still drawn; it would flatten the demand.
	highestLimit = 3
	// mixShown is how many classes the mix names.
	mixShown = 5
)

// figure is one picture of a pool.
type figure struct {
	Title  string
	SVG    template.HTML
	Legend []key
	Note   string
}

// key explains what is drawn in a class of the style sheet.
type key struct{ Class, Name string }

// Path is the key's drawing: a box for what is filled, else a line.
func (k key) Path() string {
	if k.Class == "inner" || k.Class == "outer" || k.Class == "here" || strings.HasPrefix(k.Class, "area") {
		return "M1 1H17V9H1Z"
	}
	return "M1 5H17"
}

// charts are the pictures of a pool: its binding resource, which is wide, then all that is known of the last hours.
func charts(p *PoolView, binding string) (wide *figure, all []figure) {
	if f := p.total(binding); f != nil {
		x := newChart(p, f, wideWidth, wideHeight)
		wide = &x
	}
	var origin time.Time
	for i := range p.Forecasts {
		f := &p.Forecasts[i]
		if f.Class != features.TotalClass {
			continue
		}
		if origin = f.Origin; f.Dimension != binding {
			all = append(all, newChart(p, f, halfWidth, halfHeight))
		}
	}
	if origin.IsZero() {
		return wide, all
	}
	add := func(f figure, ok bool) {
		if ok {
			all = append(all, f)
		}
	}
	add(mixChart(p, origin))
	add(cacheChart(p, origin))
	add(retryChart(p, origin))
	for _, t := range tails {
		_, ys := past(find(p.Tails, t.name), origin)
		add(line(t.title+", 95th percentile", t.unit, p, origin, ys))
	}
	add(curveChart(p))
	return wide, all
}

// past gives the values of the minutes before origin, NaN where nothing is known, and the middles of the minutes.
func past(points []Point, origin time.Time) (xs, ys []float64) {
	ys = slices.Repeat([]float64{math.NaN()}, HistoryMinutes+forecaster.Horizon)
	for m := range ys {
		xs = append(xs, float64(m)-pastMinutes+.5)
	}
	for _, pt := range points {
		if m := int(math.Floor(pt.Start.Sub(origin).Minutes() + pastMinutes)); m >= 0 && m < len(ys) {
			ys[m] = pt.Value
		}
	}
	return xs, ys
}

// highest is the largest of what is known, 0 of nothing.
func highest(lists ...[]float64) (top float64) {
	for _, list := range lists {
		for _, v := range list {
			if v > top {
				top = v
			}
		}
	}
	return top
}

// timeChart is an empty picture from three hours before origin to the end of what is forecast, or to origin.
func timeChart(title, description, axis string, width, height float64, origin time.Time, end, top float64) *draw.Chart {
	c := draw.New(width, height, title, description, -pastMinutes, end, 0, top)
	c.YAxis(axis, draw.Short)
	c.Days(origin.UTC().Add(-HistoryMinutes * time.Minute))
	return c
}

// newChart draws the forecast f of a pool's total beside what came, and what was forecast of that.
func newChart(p *PoolView, f *forecaster.Forecast, width, height float64) figure {
	xs, came := past(p.actual(f.Dimension), f.Origin)
	_, expected := past(find(p.Expected, f.Dimension), f.Origin)
	var ahead [forecaster.NumLevels][]float64
	var minutes []float64
	for h := range f.Minute {
		minutes = append(minutes, float64(h)+.5)
		for l := range ahead {
			ahead[l] = append(ahead[l], f.Minute[h][l])
		}
	}
	limits, left := capacityAhead(p, f, false), capacityAhead(p, f, true)
	out := figure{
		Title:  dimensionName(f.Dimension),
		Legend: []key{{"actual", "actual"}, {"expected", "forecast 15 min before"}, {"median", "median"}, {"inner", "to 90 %"}, {"outer", "to 95 %"}},
	}
	top := highest(came, expected, ahead[forecaster.L95])
	var load []float64
	if x := p.Decision.Retried(f.Dimension); x != nil {
		for _, median := range ahead[forecaster.L50] {
			load = append(load, median*x.Factor)
		}
		out.Legend, top = append(out.Legend, key{"load", "median with retries"}), max(top, highest(load))
	}
	switch most := highest(limits); {
	case most > top*highestLimit && top > 0:
		out.Note, limits = "capacity "+si(limits[0])+", above the picture", nil
		left = nil
	case limits != nil:
		out.Legend, top = append(out.Legend, key{"limit", "capacity"}), max(top, most)
	}
	c := timeChart(out.Title, fmt.Sprintf("%s of pool %s: now %s, median in 30 minutes %s, 95th percentile %s", f.Dimension, p.Pool, si(f.Now.Mean),
		si(f.Minute[29][forecaster.L50]), si(f.Minute[29][forecaster.L95])), unit(f.Dimension), width, height, f.Origin, futureMinutes, 1.05*top)
	c.Band("outer", minutes, ahead[forecaster.L90], ahead[forecaster.L95])
	c.Band("inner", minutes, ahead[forecaster.L50], ahead[forecaster.L90])
	c.Line("expected", xs[:HistoryMinutes], expected)
	c.Line("median", minutes, ahead[forecaster.L50])
	if load != nil {
		c.Line("load", minutes, load)
	}
	c.Line("actual", xs, came)
	if limits != nil {
		starts := make([]float64, len(limits))
		for h := range starts {
			starts[h] = float64(h)
		}
		c.Steps("limit", starts, limits, 1)
		if left != nil {
			out.Legend = append(out.Legend, key{"limit spare", "after a failure"})
			c.Steps("limit spare", starts, left, 1)
		}
	}
	c.Line("now", []float64{0, 0}, []float64{0, 1.05 * top})
	out.SVG = template.HTML(c.String())
	return out
}

// capacityAhead is what the pool can serve in each minute ahead: what is ready, and pending replicas once they had their
// lead time. afterFailure leaves out those that are kept for failures, and is nil where none are. It is nil when the dimension has
// no known capacity.
func capacityAhead(p *PoolView, f *forecaster.Forecast, afterFailure bool) []float64 {
	r, of := p.resource(f.Dimension)
	if r == nil || !(r.PerReplica > 0) || afterFailure && of.Reserve == 0 {
		return nil
	}
	kept := 0
	if afterFailure {
		kept = of.Reserve
	}
	out := make([]float64, forecaster.Horizon)
	for h := range out {
		n := of.Supply.Ready - kept
		for _, asked := range of.Supply.Pending {
			if !asked.Add(of.Lead).After(f.Origin.Add(time.Duration(h) * time.Minute)) {
				n++
			}
		}
		out[h] = float64(max(n, 0)) * r.PerReplica
	}
	return out
}

// line draws ys over the last hours; false when nothing but zero is known.
func line(title, axis string, p *PoolView, origin time.Time, ys []float64) (out figure, ok bool) {
	top := highest(ys)
	if top == 0 {
		return out, false
	}
	out.Title = title
	c := timeChart(title, "of pool "+p.Pool, axis, halfWidth, halfHeight, origin, 0, 1.05*top)
	xs, _ := past(nil, origin)
	c.Line("line hue0", xs[:HistoryMinutes], ys[:HistoryMinutes])
	out.SVG = template.HTML(c.String())
	return out, true
}

// mixChart stacks the tokens of the heaviest classes.
func mixChart(p *PoolView, origin time.Time) (out figure, ok bool) {
	sums := map[string]float64{}
	for _, mix := range p.Mix {
		for class, tokens := range mix {
			sums[class] += tokens
		}
	}
	delete(sums, features.OverflowClass)
	classes := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	classes = classes[:min(len(classes), mixShown)]
	if len(classes) == 0 {
		return out, false
	}
	xs, stack := past(nil, origin)
	xs, stack = xs[:HistoryMinutes], stack[:HistoryMinutes]
	layers := make([][]float64, len(classes)+2) // from the axis up; the last has the other classes
	for i := range layers {
		layers[i] = slices.Clone(stack)
	}
	for start, mix := range p.Mix {
		m := int(math.Floor(start.Sub(origin).Minutes() + pastMinutes))
		if m < 0 || m >= HistoryMinutes {
			continue
		}
		total, sum := 0.0, 0.0
		for _, class := range slices.Sorted(maps.Keys(mix)) {
			total += mix[class]
		}
		layers[0][m] = 0
		for i, class := range classes {
			sum += mix[class]
			layers[i+1][m] = sum
		}
		layers[len(classes)+1][m] = total
	}
	top := highest(layers[len(layers)-1])
	out.Title = "Mix of classes"
	c := timeChart(out.Title, "tokens of the heaviest classes of pool "+p.Pool+", stacked", "tokens/s", halfWidth, halfHeight, origin, 0, 1.05*top)
	for i, class := range append(classes, "others") {
		if class == "others" && highest(layers[i+1]) <= 1.001*highest(layers[i]) {
			break
		}
		area := fmt.Sprintf("area hue%d", i)
		c.Band(area, xs, layers[i], layers[i+1])
		out.Legend = append(out.Legend, key{area, class})
	}
	out.SVG = template.HTML(c.String())
	return out, true
}

// ratio is the share of part in the sum of all, minute by minute; NaN where one is not known.
func ratio(p *PoolView, origin time.Time, part string, of ...string) []float64 {
	_, out := past(p.actual(part), origin)
	sum := make([]float64, len(out))
	for _, dimension := range of {
		_, ys := past(p.actual(dimension), origin)
		for i := range sum {
			sum[i] += ys[i]
		}
	}
	for i := range out {
		if out[i] = 100 * out[i] / sum[i]; math.IsInf(out[i], 0) {
			out[i] = math.NaN()
		}
	}
	return out
}

func cacheChart(p *PoolView, origin time.Time) (figure, bool) {
	return line("Prompt tokens served from cache", "%", p, origin, ratio(p, origin, features.DimCached, features.DimCached, features.DimPrefill))
}

func retryChart(p *PoolView, origin time.Time) (figure, bool) {
	return line("Retries, share of attempts", "%", p, origin, ratio(p, origin, features.DimRetry, features.DimRetry, features.DimRequests))
}

// curveChart draws the service curve of a replica, with the knee at the objective and where the pool is on it.
func curveChart(p *PoolView) (out figure, ok bool) {
	s := p.Curve
	if s == nil {
		return out, false
	}
	var xs, ys []float64
	for _, pt := range s.Points {
		if pt.TokensPerS > 0 && pt.ITL > 0 {
			xs, ys = append(xs, pt.TokensPerS), append(ys, 1000*pt.ITL)
		}
	}
	if len(xs) < 2 {
		return out, false
	}
	out.Title = "Service curve of a replica"
	from := map[capacity.Source]string{capacity.Given: "from the benchmark", capacity.Learned: "learned"}[s.Source]
	out.Legend = []key{{"line hue0", "time per output token, " + from}}
	right, top := max(highest(xs), s.Knee), max(highest(ys), 1000*s.Objective)
	c := draw.New(halfWidth, halfHeight, out.Title, fmt.Sprintf("knee at %s tokens/s", si(s.Knee)), 0, 1.05*right, 0, 1.1*top)
	c.YAxis("ms per token, over output tokens/s", draw.Short)
	for _, v := range draw.Ticks(0, right, 5) {
		c.XMark(v, draw.Short(v))
	}
	c.Line("line hue0", xs, ys)
	if s.Objective > 0 {
		c.Line("limit", []float64{0, right}, []float64{1000 * s.Objective, 1000 * s.Objective})
		out.Legend = append(out.Legend, key{"limit", "objective"})
	}
	if s.Knee > 0 {
		c.Line("now", []float64{s.Knee, s.Knee}, []float64{0, 1.1 * top})
		out.Note = "knee at " + si(s.Knee) + " tokens/s"
	}
	if at := p.decoding(); at >= 0 {
		c.Dot("here", min(at, 1.05*right), along(xs, ys, at), "now")
		out.Legend = append(out.Legend, key{"here", "now: " + si(at) + " tokens/s a replica"})
		if s.Knee > 0 {
			out.Note += fmt.Sprintf(", of which %s is in use", percent(at/s.Knee))
		}
	}
	out.SVG = template.HTML(c.String())
	return out, true
}

// decoding is how many tokens a second each ready replica has to generate now; NaN when that is not known.
func (p *PoolView) decoding() float64 {
	r, of := p.resource(features.DimDecode)
	if r == nil || of.Supply.Ready == 0 {
		return math.NaN()
	}
	return r.Demand / float64(of.Supply.Ready)
}

// along is the height of a line at x; beyond its ends that of the nearest one.
func along(xs, ys []float64, x float64) float64 {
	i, _ := slices.BinarySearch(xs, x)
	switch {
	case i == 0:
		return ys[0]
	case i == len(xs):
		return ys[i-1]
	}
	return ys[i-1] + (ys[i]-ys[i-1])*(x-xs[i-1])/(xs[i]-xs[i-1])
}

// dimensionName is a dimension for people.
func dimensionName(dimension string) string {
	switch dimension {
	case features.DimPrefill:
		return "Prompt tokens to compute"
	case features.DimDecode:
		return "Output tokens"
	case features.DimKV:
		return "Active tokens (KV memory)"
	case features.DimRequests:
		return "Requests"
	}
	return dimension
}
