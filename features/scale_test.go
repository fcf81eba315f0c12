package features

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// BenchmarkAddRequestByClasses spreads the same traffic over few or many classes. The cost of a record should not
// depend on their number.
func BenchmarkAddRequestByClasses(b *testing.B) {
	for _, classes := range []int{10, 100, 1000, 10_000} {
		b.Run(fmt.Sprint(classes), func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.MaxClasses = classes
			a := New(cfg)
			names := make([]string, classes)
			for i := range names {
				names[i] = fmt.Sprint("class-", i)
			}
			tenants := make([]string, 30)
			for i := range tenants {
				tenants[i] = fmt.Sprint("tenant-", i)
			}
			r := request("", 0)
			const perMinute = 240_000
			var closing time.Duration
			step := Minute / perMinute
			add := func(i int) {
				class := func(i int) string { return names[uint64(i)*0x9e3779b97f4a7c15>>32%uint64(classes)] }
				r.Class, r.Tenant = class(i), tenants[i*i%30]
				r.PromptTokens, r.CachedTokens, r.OutputTokens = int64(100+i*7919%3000), int64(i%100), int64(10+i*13%500)
				s := t0.Add(time.Duration(i) * step)
				r.ArrivedAt, r.StartedAt, r.FirstTokenAt, r.FinishedAt = s, s.Add(100*time.Millisecond), s.Add(500*time.Millisecond), s.Add(12*time.Second)
				if reason := a.addRequest(r); reason != "" {
					b.Fatal(reason)
				}
				if i%perMinute == perMinute-1 {
					began := cpuTime(b)
					a.Close(s.Add(step).Truncate(Minute))
					closing += cpuTime(b) - began
				}
			}
			warm := 14 * perMinute
			for i := range warm {
				add(i)
			}
			b.ReportAllocs()
			b.ResetTimer()
			closing = 0
			began := cpuTime(b)
			for i := range b.N {
				add(warm + i)
			}
			b.ReportMetric(float64(closing)/float64(b.N), "close-ns/op")
			b.ReportMetric(float64(cpuTime(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpuTime is the CPU time of this process, which depends less on other processes than the wall clock.
func cpuTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A class that had many tenants and is now silent takes little memory.
func TestMemoryOfIdleClass(t *testing.T) {
	const classes, busy = 1000, 15
	cfg := DefaultConfig()
	cfg.MaxClasses = classes
	before := heap()
	a := New(cfg)
	for m := range 2 * busy {
		if m < busy {
			for i := range classes * 20 {
				r := request("", float64(m*60+i%59))
				r.Class, r.Tenant = fmt.Sprint("class-", i%classes), fmt.Sprint("tenant-", (i+m*7919)%500)
				r.StartedAt, r.FirstTokenAt, r.FinishedAt = r.ArrivedAt, r.ArrivedAt.Add(time.Second), r.ArrivedAt.Add(70*time.Second)
				mustAdd(t, a, r)
			}
		}
		a.Close(at(float64(m+1) * 60))
	}
	if perClass := (heap() - before) / classes; perClass > 8<<10 {
		t.Errorf("an idle class takes %.0f bytes, want 8 KiB at most", perClass)
	}
	runtime.KeepAlive(a)
}

func heap() float64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}
