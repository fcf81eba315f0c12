package backtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/forewarm/forewarm/ingest"
)

// poissonArrivals submits a Poisson stream until a time, advancing the cluster with it, and calls each with what every
// minute reports.
func poissonArrivals(c *Cluster, rate, until float64, output func() int64, each func([]ingest.Request, []ingest.Replica)) {
	rng := rand.New(rand.NewPCG(11, uint64(rate*1000)))
	minute := 60.
	for i, at := uint64(1), rng.ExpFloat64()/rate; at < until; i, at = i+1, at+rng.ExpFloat64()/rate {
		for ; at >= minute; minute += 60 {
			c.Advance(DefaultStart.Add(time.Duration(minute * 1e9)))
			each(c.Drain())
		}
		c.Submit(Arrival{ID: i, At: DefaultStart.Add(time.Duration(at * 1e9)), PromptTokens: 1, OutputTokens: output()})
	}
}

// With slots for everyone the number in service is M/G/∞: Poisson, with mean and variance λ·E(S) whatever the law of S
// (here one in ten takes eleven times as long as the others). The sequences of a minute's end are as good as
// independent when a minute is several services long.
func TestClusterOccupancyIsPoisson(t *testing.T) {
	cfg := stationConfig(1)
	cfg.MaxNumSeqs = 1 << 20
	c := NewCluster(cfg)
	rng := rand.New(rand.NewPCG(5, 5))
	const rate, hours = 4., 40.
	output := func() int64 { // 2 s on average, at 1 ms a token
		if rng.IntN(10) == 0 {
			return 11_001
		}
		return 1_001
	}
	var sum, squares, n float64
	poissonArrivals(c, rate, hours*3600, output, func(_ []ingest.Request, replicas []ingest.Replica) {
		x := float64(replicas[len(replicas)-1].Running)
		sum, squares, n = sum+x, squares+x*x, n+1
	})
	mean := sum / n
	variance := squares/n - mean*mean
	const want = rate * 2
	if math.Abs(mean/want-1) > .03 {
		t.Errorf("%.2f in service on average, M/G/∞ has %.2f", mean, want)
	}
	if math.Abs(variance/want-1) > .1 {
		t.Errorf("the variance in service is %.2f, a Poisson's is its mean, %.2f", variance, want)
	}
}

// Little's law: the mean number in the system, waiting included, is the arrival rate times the mean time in it. And at
// every minute what arrived is finished, failed, waiting for its retry, queued or running.
func TestClusterConservesRequests(t *testing.T) {
	cfg := DefaultClusterConfig()
	cfg.Replicas = 3
	cfg.MaxNumSeqs = 8
	cfg.QueueTimeout, cfg.Patience = 10*time.Second, 60*time.Second
	c := NewCluster(cfg)
	rng := rand.New(rand.NewPCG(2, 3))
	var inside, minutes, spent, ended float64
	const rate, hours = 1.9, 10.
	poissonArrivals(c, rate, hours*3600, func() int64 { return 1 + int64(rng.ExpFloat64()*800) }, func(requests []ingest.Request, replicas []ingest.Replica) {
		running := int64(0)
		for _, r := range replicas[len(replicas)-3:] {
			running += r.Running
		}
		m := c.Metrics()
		here := running + int64(c.waiting())
		if all := m.Finished + m.Failed + here + int64(len(c.retries)); all != m.Requests {
			t.Fatalf("minute %d: %d requests arrived, and %d are accounted for", m.Minutes, m.Requests, all)
		}
		inside, minutes = inside+float64(here), minutes+1
		for i := range requests {
			spent += requests[i].FinishedAt.Sub(requests[i].ArrivedAt).Seconds()
			ended++
		}
	})
	m := c.Metrics()
	if m.Rejected == 0 || m.Retries == 0 || m.Failed == 0 || m.Cancelled == 0 {
		t.Errorf("%+v: nothing was rejected, cancelled, retried or failed", m)
	}
	attempts := ended / (hours * 3600)
	if got, want := inside/minutes, attempts*(spent/ended); math.Abs(got/want-1) > .03 {
		t.Errorf("%.2f in the system on average, Little's law says %.2f", got, want)
	}
}
