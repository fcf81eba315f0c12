package backtest

// window is a ring of a series' newest values.
type window struct {
	values []float64
	n      int
}

func newWindow(minutes float64) window { return window{values: make([]float64, int(minutes))} }

func (w *window) add(x float64) {
	w.values[w.n%len(w.values)] = x
	w.n++
}

// len is the number of known values.
func (w *window) len() int { return min(w.n, len(w.values)) }

// back returns the value of i minutes ago, i < len.
func (w *window) back(i int) float64 { return w.values[(w.n-1-i)%len(w.values)] }

// holtWinters is Prometheus' double_exponential_smoothing (holt_winters before version 3) of the need: Holt's linear
// method without a season. PromQL returns the smoothed current value.
type holtWinters struct {
	utilisation, smoothing, trend float64
	need                          window
	hpa                           hpa
}

const holtRange = 60 // minutes

func newHoltWinters(_ Scene, set Setting) Policy {
	return &holtWinters{utilisation: set[0], smoothing: set[1], trend: set[2], need: newWindow(holtRange), hpa: newHPA(set[3])}
}

func (p *holtWinters) Desired(o Observation) int {
	p.need.add(o.Need)
	current := o.Ready + o.Pending
	return p.hpa.settle(p.hpa.average(max(p.smoothed(), 0), p.utilisation, current), current)
}

// smoothed follows promql/functions.go: the level starts at the first value, the trend at the first difference.
func (p *holtWinters) smoothed() float64 {
	n := p.need.len()
	level := p.need.back(n - 1)
	if n < 2 {
		return level
	}
	trend := p.need.back(n-2) - level
	before := level
	for i := 1; i < n; i++ {
		if i > 1 {
			trend = p.trend*(level-before) + (1-p.trend)*trend
		}
		before, level = level, p.smoothing*p.need.back(n-1-i)+(1-p.smoothing)*(level+trend)
	}
	return level
}

const day = 1440 // minutes
