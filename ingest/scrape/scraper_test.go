package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/tlsconfig"
)

// roundTrip answers requests without a network.
type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answer(text string) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text))}, nil
}

// eventLog collects events with their time since the start.
type eventLog struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func (d *eventLog) add(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%s ", time.Since(d.began))+fmt.Sprintf(format, args...))
}

// run runs a scraper for the duration span, and returns its events.
func run(t *testing.T, c Config, lookup func(string) ([]string, error), transport func(d *eventLog, r *http.Request) (*http.Response, error), span time.Duration) ([]string, *Scraper) {
	t.Helper()
	d := &eventLog{began: time.Now()}
	s, err := New(c, Deps{
		Store: func(_ context.Context, b *ingest.Batch) error {
			for _, r := range b.Replicas {
				if strings.Contains(r.Name, "unpublishable") {
					return errors.New("no stream")
				}
				d.add("%s is %s", r.Name, r.State)
			}
			return nil
		},
		Lookup: func(_ context.Context, name string) ([]string, error) { return lookup(name) },
		Note:   func(string, error) {},
		Log:    zap.NewNop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range s.clients {
		client.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) { return transport(d, r) })
	}
	ctx, cancel := context.WithTimeout(t.Context(), span)
	defer cancel()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	slices.Sort(d.lines)
	return d.lines, s
}

// TestScrapesAreSpread: three targets are scraped 5 s apart within an interval of 15 s.
func TestScrapesAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.Jobs = []Job{{Pool: "p", Targets: []string{"c:1", "a:1", "b:1"}}}
		got, _ := run(t, c, nil, func(d *eventLog, r *http.Request) (*http.Response, error) {
			d.add("scrape %s%s", r.URL.Host, r.URL.Path)
			return answer("vllm:num_requests_running 1\n")
		}, 29*time.Second)
		want := []string{
			"0s a:1 is ready", "0s scrape a:1/metrics", "10s c:1 is ready", "10s scrape c:1/metrics", "15s a:1 is ready", "15s scrape a:1/metrics",
			"20s b:1 is ready", "20s scrape b:1/metrics", "25s c:1 is ready", "25s scrape c:1/metrics", "5s b:1 is ready", "5s scrape b:1/metrics",
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

func TestScrapesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		for i := range 20 * maxScrapes {
			c.Jobs = append(c.Jobs, Job{Pool: "p", Targets: []string{fmt.Sprintf("h:%d", i+1)}})
		}
		var mu sync.Mutex
		under, most := 0, 0
		_, s := run(t, c, nil, func(_ *eventLog, r *http.Request) (*http.Response, error) {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			<-r.Context().Done() // hangs until the timeout
			mu.Lock()
			under--
			mu.Unlock()
			return nil, r.Context().Err()
		}, 5*time.Minute)
		// Each scrape takes 10 s, so there are at most 30 times maxScrapes in five minutes. All time out.
		if failures := s.Failures.Load(); most != maxScrapes || failures < 27*maxScrapes || failures > 30*maxScrapes {
			t.Errorf("at most %d at once, %d failures", most, failures)
		}
	})
}

func TestDNSIsLookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.Jobs = []Job{{Pool: "p", DNS: "engines:8000"}}
		round := 0
		got, stats := run(t, c, func(name string) ([]string, error) {
			round++
			switch {
			case name != "engines":
				t.Errorf("looked up %q", name)
			case round == 2:
				return []string{"10.0.0.1", "fd00::2", "fe80::1%eth0"}, nil
			case round == 3:
				return nil, errors.New("no server answers")
			case round == 4:
				return []string{"fd00::2"}, nil
			}
			return []string{"10.0.0.1", "10.0.0.1"}, nil
		}, func(*eventLog, *http.Request) (*http.Response, error) {
			return answer("vllm:num_requests_running 1\n")
		}, 59*time.Second)
		want := []string{
			"0s 10.0.0.1:8000 is ready",
			"15s 10.0.0.1:8000 is ready", "22.5s [fd00::2]:8000 is ready",
			"30s 10.0.0.1:8000 is ready", "37.5s [fd00::2]:8000 is ready",
			"45s 10.0.0.1:8000 is gone", "45s [fd00::2]:8000 is ready",
		}
		if d := cmp.Diff(want, got); d != "" || stats.Failures.Load() != 1 {
			t.Errorf("%d failures\n%s", stats.Failures.Load(), d)
		}
	})
}

// TestTargetsBeyondTheBound: of a name with too many addresses the same ones are scraped, in whatever order they come.
func TestTargetsBeyondTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var names []string
		for i := range maxTargets + 10 {
			names = append(names, fmt.Sprintf("h%04d", i))
		}
		c := DefaultConfig()
		c.Jobs = []Job{{Pool: "p", DNS: "engines:1"}}
		lookup := func(string) ([]string, error) {
			slices.Reverse(names)
			return slices.Clone(names), nil
		}
		got, _ := run(t, c, lookup, func(*eventLog, *http.Request) (*http.Response, error) {
			return answer("vllm:num_requests_running 1\n")
		}, 29*time.Second)
		for _, line := range got {
			if strings.Contains(line, "gone") {
				t.Fatal(line)
			}
		}
	})
}

// TestStartsAreDated: the startup of a new engine lasts from the start of its process to its first scrape.
func TestStartsAreDated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var reported []string
		s, err := New(Config{Interval: 15 * time.Second, Jobs: []Job{{Pool: "p", DNS: "engines:1"}}}, Deps{
			Store: func(_ context.Context, b *ingest.Batch) error {
				for _, r := range b.Replicas {
					reported = append(reported, fmt.Sprint(r.Name, " ", r.StartupSeconds))
				}
				return nil
			},
			Lookup: func(context.Context, string) ([]string, error) {
				if time.Since(began) < 20*time.Second {
					return []string{"old"}, nil
				}
				return []string{"new", "old"}, nil
			},
			Note: func(string, error) {},
			Log:  zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		s.clients[0].http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			start := began.Add(-time.Hour)
			if r.URL.Hostname() == "new" {
				start = began.Add(5 * time.Second)
			}
			return answer(fmt.Sprintf("vllm:num_requests_running 1\nprocess_start_time_seconds %d\n", start.Unix()))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		want := []string{"old:1 NaN", "old:1 NaN", "new:1 25", "old:1 NaN", "new:1 NaN"}
		if d := cmp.Diff(want, reported); d != "" {
			t.Error(d)
		}
	})
}

// TestFaultsNameTheTarget: a target that cannot be read is noted by its job, pool and address, with the error. One that
// answers again, or is not in DNS any more, is noted without an error.
func TestFaultsNameTheTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		began, faults := time.Now(), map[string]string{}
		s, err := New(Config{Interval: 15 * time.Second, Jobs: []Job{
			{Pool: "p", Targets: []string{"ok:1", "html:1", "broken:1"}, Path: "/m"}, {Pool: "q", DNS: "engines:1"},
		}}, Deps{
			Store: func(context.Context, *ingest.Batch) error { return nil },
			Lookup: func(context.Context, string) ([]string, error) {
				switch time.Since(began) {
				case 0:
					return nil, errors.New("no such host")
				case 15 * time.Second:
					return []string{"gone"}, nil
				}
				return []string{}, nil
			},
			Note: func(target string, err error) {
				mu.Lock()
				defer mu.Unlock()
				delete(faults, target)
				if err != nil {
					faults[target] = err.Error()
				}
			},
			Log: zap.NewNop(),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range s.clients {
			c.http.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
				switch host := r.URL.Hostname(); {
				case host == "ok":
					return answer("vllm:num_requests_running 1\n")
				case host == "html" && time.Since(began) < 40*time.Second:
					return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
				case host == "html":
					return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/html"}}, Body: http.NoBody}, nil
				case host == "broken" && time.Since(began) > 40*time.Second:
					return answer("vllm:num_requests_running 1\n")
				}
				return nil, syscall.ECONNREFUSED
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		const broken = "scrape.jobs[0] of pool p, http://broken:1/m: connection refused; "
		const missing = "scrape.jobs[0] of pool p, http://html:1/m: it answers 404; is the path /m right?"
		for _, want := range []string{
			broken + missing + "; scrape.jobs[1] of pool q, http://engines:1/metrics: no such host",
			broken + missing + "; scrape.jobs[1] of pool q, http://gone:1/metrics: connection refused",
			broken + missing,
			`scrape.jobs[0] of pool p, http://html:1/m: content type "text/html" is no exposition of metrics; is the path right?`,
		} {
			time.Sleep(14 * time.Second)
			mu.Lock()
			var all []string
			for _, target := range slices.Sorted(maps.Keys(faults)) {
				all = append(all, target+": "+faults[target])
			}
			mu.Unlock()
			if got := strings.Join(all, "; "); !strings.HasPrefix(got, want) {
				t.Errorf("after %s: %s\nwant %s", time.Since(began), got, want)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestUnstoredReports: a report that the stream does not store is a failure of its target.
func TestUnstoredReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := DefaultConfig()
		c.Jobs = []Job{{Pool: "p", Targets: []string{"unpublishable:1"}}}
		_, s := run(t, c, nil, func(*eventLog, *http.Request) (*http.Response, error) {
			return answer("vllm:num_requests_running 1\n")
		}, time.Second)
		if n := s.Failures.Load(); n != 1 {
			t.Errorf("%d failures", n)
		}
	})
}

func TestCheck(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		`interval is 0s`:                               func(c *Config) { c.Interval = 0 },
		`jobs[0].pool is ""`:                           func(c *Config) { c.Jobs[0].Pool = "" },
		`jobs[0].targets is empty`:                     func(c *Config) { c.Jobs[0].Targets = nil },
		`jobs[0].targets[1] is "b": it must be host`:   func(c *Config) { c.Jobs[0].Targets = []string{"a:1", "b"} },
		`jobs[0].targets[0] is "http://a:1"`:           func(c *Config) { c.Jobs[0].Targets = []string{"http://a:1"} },
		`jobs[0].targets[0] is "a:0"`:                  func(c *Config) { c.Jobs[0].Targets = []string{"a:0"} },
		`jobs[0].targets[0] is "u@a:1"`:                func(c *Config) { c.Jobs[0].Targets = []string{"u@a:1"} },
		`jobs[0].dns is "engines"`:                     func(c *Config) { c.Jobs[0].DNS = "engines" },
		`jobs[0].scheme is "ftp"`:                      func(c *Config) { c.Jobs[0].Scheme = "ftp" },
		`jobs[0].path is "metrics"`:                    func(c *Config) { c.Jobs[0].Path = "metrics" },
		`jobs[0].engine is "vlm": it must be one of a`: func(c *Config) { c.Jobs[0].Engine = "vlm" },
		`jobs[0].tls is set`:                           func(c *Config) { c.Jobs[0].TLS.CAFile = "ca" },
		`jobs[0].tls.cert_file is "c"`:                 func(c *Config) { c.Jobs[0].Scheme, c.Jobs[0].TLS.CertFile = "https", "c" },
		`jobs is a list of 4097 targets`:               func(c *Config) { c.Jobs[0].Targets = slices.Repeat([]string{"a:1"}, 4097) },
	} {
		c := DefaultConfig()
		c.Jobs = []Job{{Pool: "p", Targets: []string{"a:1"}}}
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	c := DefaultConfig()
	c.Jobs = []Job{{Pool: "p", Targets: []string{"a:1"}, Scheme: "https", Config: httpclient.Config{TLS: tlsconfig.Client{CAFile: "none.pem"}}}}
	if _, err := New(c, Deps{Log: zap.NewNop()}); err == nil || !strings.Contains(err.Error(), `jobs[0].tls: unable to read CA cert: unable to read file none.pem`) {
		t.Errorf("missing file: %v", err)
	}
}
