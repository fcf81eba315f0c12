package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/forecaster/capacity"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/pipeline"
)

var benchTable = flag.String("table", "", "run the benchmarks and write their table to this `file`")

var benchParts = flag.String("parts", "", "comma-separated `names` of the benchmarks to run; the table has only their rows")

var benchMessages = flag.Int("messages", 400_000, "`number` of messages of a benchmark")

// row is one line of BENCHMARKS.md.
type row struct{ what, result, bound string }

// TestBenchmarkTable writes the table of BENCHMARKS.md. Where it compares two programs, it runs both in turns.
func TestBenchmarkTable(t *testing.T) {
	if *benchTable == "" {
		t.Skip("give -table, as make bench does")
	}
	b := &bench{t: t, messages: *benchMessages}
	var rows []row
	for _, part := range []struct {
		name string
		run  func() []row
	}{
		{"core", b.core},
		{"jetstream", b.jetstream},
		{"protobuf", b.protobuf},
		{"classes", b.classes},
		{"memory", b.memory},
		{"daemon", b.daemonMemory},
		{"forecasts", b.forecasts},
	} {
		if *benchParts != "" && !slices.Contains(strings.Split(*benchParts, ","), part.name) {
			continue
		}
		for _, r := range part.run() {
			t.Log(r)
			rows = append(rows, r)
		}
	}
	var out bytes.Buffer
	build, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&out, "# Benchmarks\n\n`make bench` writes this table. Its numbers are of the machine and the build.\n\n"+
		"Run of %s, build %s, %s/%s, %d cores, %s.\n\n| what | result | bound |\n|---|---|---|\n",
		time.Now().UTC().Format(time.DateOnly), bytes.TrimSpace(build), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0), runtime.Version())
	for _, r := range rows {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", r.what, r.result, r.bound)
	}
	if old, err := os.ReadFile(*benchTable); err == nil { // keep the sections of other commands
		if i := bytes.Index(old, []byte("\n## ")); i >= 0 {
			out.Write(old[i:])
		}
	}
	if err := os.WriteFile(*benchTable, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
}

// rounds is the number of runs of each side of a comparison, in turns. The fastest run counts: other processes delayed
// the others.
const rounds = 5

type bench struct {
	t        *testing.T
	messages int
}

// cost is the time of one side of a comparison.
type cost struct{ wall, cpu time.Duration }

// compare runs both sides in turns, and returns the least cost of each.
func (b *bench) compare(reference, own func() time.Duration) (ref, us cost) {
	least := func(c *cost, side func() time.Duration) {
		used := cpuTime(b.t)
		wall := side()
		used = cpuTime(b.t) - used
		if c.wall == 0 || wall < c.wall {
			c.wall = wall
		}
		if c.cpu == 0 || used < c.cpu {
			c.cpu = used
		}
	}
	for range rounds {
		least(&ref, reference)
		least(&us, own)
	}
	return ref, us
}

// requests returns n records, spread over a minute and so many classes. Their content is random, because a processor
// predicts a pattern that repeats.
func requests(n, classes int, start time.Time) []ingest.Request {
	rs, draw := make([]ingest.Request, n), rand.New(rand.NewPCG(1, 2))
	names := func(kind string, n int) (all []string) { // records share strings, as a decoder returns them
		for i := range n {
			all = append(all, fmt.Sprint(kind, i))
		}
		return all
	}
	class, tenant := names("class-", classes), names("tenant-", 40)
	for i := range rs {
		at := start.Add(time.Duration(i) * 50 * time.Second / time.Duration(n))
		rs[i] = ingest.Request{
			ID: fmt.Sprintf("req-%08x-%x", uint32(i)*2654435761, start.Unix()/60), Pool: "chat", Class: class[draw.IntN(classes)],
			Model: "llama-3-70b", Tenant: tenant[draw.IntN(40)], Attempt: 1,
			ArrivedAt: at, StartedAt: at.Add(30 * time.Millisecond), FirstTokenAt: at.Add(400 * time.Millisecond), FinishedAt: at.Add(9 * time.Second),
			PromptTokens: 200 + draw.Int64N(4000), CachedTokens: draw.Int64N(200), OutputTokens: 20 + draw.Int64N(700), MaxOutputTokens: ingest.Unknown,
		}
	}
	return rs
}

func appendJSON(r *ingest.Request) []byte {
	return fmt.Appendf(nil, `{"id":%q,"pool":%q,"class":%q,"model":%q,"tenant":%q,"arrived_at":%d,"started_at":%d,"first_token_at":%d,"finished_at":%d,"prompt_tokens":%d,"cached_tokens":%d,"output_tokens":%d}`,
		r.ID, r.Pool, r.Class, r.Model, r.Tenant, r.ArrivedAt.UnixMilli(), r.StartedAt.UnixMilli(), r.FirstTokenAt.UnixMilli(), r.FinishedAt.UnixMilli(),
		r.PromptTokens, r.CachedTokens, r.OutputTokens)
}

func newPipeline(classes int) *pipeline.Pipeline { return pipeline.New(benchConfig(classes)) }

func benchConfig(classes int) pipeline.Config {
	cfg := pipeline.DefaultConfig()
	cfg.Features.MaxClasses = classes
	cfg.Pools = []capacity.Pool{{Config: capacity.Config{Name: "chat"}}}
	return cfg
}

var benchStart = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

func (b *bench) jsonMessages() [][]byte {
	messages := make([][]byte, b.messages)
	for i, r := range requests(b.messages, 8, benchStart) {
		messages[i] = appendJSON(&r)
	}
	return messages
}

// core compares a subscriber that applies messages with one that does nothing. A publisher sends as fast as it can.
func (b *bench) core() []row {
	messages, url := b.jsonMessages(), b.server()
	read := func(handle func(m *nats.Msg)) time.Duration {
		in, out := b.connect(url), b.connect(url)
		defer in.Close()
		defer out.Close()
		done, n := make(chan struct{}), 0
		sub, err := in.Subscribe("forewarm.telemetry.request.>", func(m *nats.Msg) {
			handle(m)
			if n++; n == len(messages) {
				close(done)
			}
		})
		b.check(err)
		b.check(sub.SetPendingLimits(-1, -1))
		b.check(in.Flush())
		began := time.Now()
		for _, m := range messages {
			b.check(out.Publish("forewarm.telemetry.request.chat", m))
		}
		b.check(out.Flush())
		<-done
		return time.Since(began)
	}
	ref, us := b.compare(
		func() time.Duration { return read(func(*nats.Msg) {}) },
		func() time.Duration {
			in, settle, end := pipe(newPipeline(64))
			defer end()
			took := read(func(m *nats.Msg) {
				about, _ := codec.ParseSubject("forewarm", m.Subject)
				in(about, m.Data)
			})
			began := time.Now()
			settle()
			return took + time.Since(began)
		})
	return b.ratio("JSON, one record per message, core NATS: decode, dedup, classify and count, compared with a subscriber that does nothing", ref, us, 50)
}

// jetstream compares the daemon's consumer with a consumer that does nothing, over one full stream.
func (b *bench) jetstream() []row {
	ctx, url := b.t.Context(), b.server()
	conn := b.connect(url)
	js, err := natsjs.New(conn)
	b.check(err)
	c := jetstream.DefaultConfig()
	stores, err := jetstream.Ensure(ctx, js, c)
	b.check(err)
	for _, m := range b.jsonMessages() {
		_, err := js.PublishAsync("forewarm.telemetry.request.chat", m)
		b.check(err)
	}
	<-js.PublishAsyncComplete()
	ref, us := b.compare(
		func() time.Duration {
			consumer, err := stores.Telemetry.OrderedConsumer(ctx, natsjs.OrderedConsumerConfig{})
			b.check(err)
			began := time.Now()
			var wg sync.WaitGroup
			wg.Add(b.messages)
			run, err := consumer.Consume(func(natsjs.Msg) { wg.Done() })
			b.check(err)
			wg.Wait()
			run.Stop()
			return time.Since(began)
		},
		func() time.Duration {
			p, n, began := newPipeline(64), 0, time.Now()
			consumer := jetstream.NewConsumer(js, c, c.Telemetry(), 1, zap.NewNop())
			err := consumer.Run(ctx, func(batches []ingest.Batch) error {
				for i := range batches {
					p.Apply(&batches[i], func(*pipeline.Output) {})
				}
				if n += len(batches); n == b.messages {
					return errEnough
				}
				return nil
			})
			if !errors.Is(err, errEnough) {
				b.t.Fatal(err)
			}
			if got := p.Counters().Records; got != uint64(b.messages) {
				b.t.Fatalf("%d of %d records were applied", got, b.messages)
			}
			return time.Since(began)
		})
	return b.ratio("the same over JetStream: the daemon's consumer compared with a nats.go ordered consumer that does nothing", ref, us, 75)
}

var errEnough = errors.New("enough")

func (b *bench) ratio(what string, ref, us cost, bound int) []row {
	rate := func(c cost) float64 { return float64(b.messages) / c.wall.Seconds() / 1e3 }
	each := func(c cost) float64 { return float64(c.cpu.Microseconds()) / float64(b.messages) }
	return []row{{what, fmt.Sprintf("%.0f %% (%.0f of %.0f thousand messages/s; %.1f and %.1f µs of CPU time per message, server included)",
		100*float64(ref.wall)/float64(us.wall), rate(us), rate(ref), each(us), each(ref)), fmt.Sprintf("≥ %d %%", bound)}}
}

// A part has at most perPart messages, and takes no more messages once it has partRecords records. The daemon has
// the same limits.
const (
	perPart     = 32
	partRecords = 512
)

// pipe decodes on the caller's goroutine and applies parts on another, as the daemon does. in takes a message, settle
// waits until all are applied, end stops the other goroutine.
func pipe(p *pipeline.Pipeline) (in func(about codec.Meta, data []byte), settle, end func()) {
	const parts = 8
	type part []ingest.Batch
	free, ready := make(chan part, parts), make(chan part, parts)
	for range parts {
		free <- make(part, perPart)[:0]
	}
	p.Apply(&ingest.Batch{Watermark: &ingest.Watermark{At: benchStart}}, func(*pipeline.Output) {}) // the daemon has one a minute
	go func() {
		for batches := range ready {
			for i := range batches {
				p.Apply(&batches[i], func(*pipeline.Output) {})
			}
			for i := range batches {
				batches[i].Reset()
			}
			free <- batches[:0]
		}
	}()
	at, records, limits, decoder := <-free, 0, ingest.DefaultLimits(), new(codec.Decoder)
	in = func(about codec.Meta, data []byte) {
		at = at[:len(at)+1]
		b := &at[len(at)-1]
		decoder.Decode(about, data, limits, b)
		if records += len(b.Requests); len(at) == perPart || records >= partRecords {
			ready <- at
			at, records = <-free, 0
		}
	}
	settle = func() {
		ready <- at
		var all [parts]part
		for i := range all {
			all[i] = <-free
		}
		for _, x := range all[1:] {
			free <- x
		}
		at, records = all[0], 0
	}
	return in, settle, func() { close(ready) }
}

// protobuf decodes on one goroutine and applies on another, as the daemon does.
func (b *bench) protobuf() []row {
	const perBatch = 100
	n := 10_000
	rs := requests(n*perBatch, 64, benchStart)
	messages := make([][]byte, n)
	for i := range messages {
		messages[i] = codec.AppendProtobuf(nil, &ingest.Batch{Requests: rs[i*perBatch : (i+1)*perBatch]})
	}
	best, cpu, allocs := time.Duration(1<<62), time.Duration(1<<62), 0.0
	for range rounds {
		in, settle, end := pipe(newPipeline(64))
		run := func(messages [][]byte) {
			for _, m := range messages {
				in(codec.Meta{ContentType: codec.ContentTypeProtobuf}, m)
			}
			settle()
		}
		run(messages[:n/2]) // not measured: it fills the tables
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began, used := time.Now(), cpuTime(b.t)
		run(messages[n/2:])
		best, cpu = min(best, time.Since(began)), min(cpu, cpuTime(b.t)-used)
		runtime.ReadMemStats(&after)
		allocs = float64(after.Mallocs-before.Mallocs) / float64(n/2*perBatch)
		end()
	}
	records := float64(n / 2 * perBatch)
	return []row{{"Protobuf, 100 records per message, decode to count on two cores",
		fmt.Sprintf("%.2f million records/s, %.0f ns of CPU time and %.2f allocations per record", records/best.Seconds()/1e6, float64(cpu)/records, allocs), "≥ 1.5 million/s"}}
}

// busyBefore is the number of busy minutes before the timed one. After them, new windows reuse the memory of old ones.
// Without them, the timed minute would allocate it.
const busyBefore = 4

// classes spreads the same JSON traffic over few and many classes. It measures the time from bytes to windows in the
// second half of a busy minute. The time to close minutes does not count: it is per window, not per record.
func (b *bench) classes() (rows []row) {
	counts := [...]int{10, 100, 1000, 10_000}
	var messages, earlier [len(counts)][][]byte
	var plain [len(counts)][]ingest.Request
	var best [len(counts)]time.Duration
	n, before := b.messages/2, benchStart.Add(-time.Minute)
	for k, classes := range counts {
		plain[k] = requests(n, classes, benchStart)
		for i := range plain[k] {
			messages[k] = append(messages[k], appendJSON(&plain[k][i]))
		}
		for _, r := range requests(n, classes, before) {
			earlier[k] = append(earlier[k], appendJSON(&r))
		}
	}
	for range rounds {
		for k, classes := range counts {
			cfg := benchConfig(classes)
			cfg.Features.Revise = time.Minute // windows are released early
			p, batches, decoder := pipeline.New(cfg), make([]ingest.Batch, perPart), new(codec.Decoder)
			run := func(messages [][]byte) {
				for len(messages) > 0 {
					part := batches[:min(perPart, len(messages))]
					for i := range part {
						part[i].Reset()
						decoder.Decode(codec.Meta{}, messages[i], ingest.DefaultLimits(), &part[i])
					}
					for i := range part {
						p.Apply(&part[i], func(*pipeline.Output) {})
					}
					messages = messages[len(part):]
				}
			}
			tick := func(at time.Time) {
				p.Apply(&ingest.Batch{Watermark: &ingest.Watermark{At: at}}, func(*pipeline.Output) {})
			}
			for m := busyBefore; m > 1; m-- {
				b.applyAt(p, plain[k], -time.Duration(m)*time.Minute)
				tick(benchStart.Add(-time.Duration(m-1) * time.Minute))
			}
			run(earlier[k])
			tick(benchStart)
			runtime.GC()
			run(messages[k][:n/2])
			used := cpuTime(b.t)
			run(messages[k][n/2:])
			if used = cpuTime(b.t) - used; best[k] == 0 || used < best[k] {
				best[k] = used
			}
			if got := p.Counters(); got.Records != uint64((busyBefore+1)*n) {
				b.t.Fatalf("%d of %d records were applied: %v", got.Records, (busyBefore+1)*n, got.Refused)
			}
		}
	}
	for k, classes := range counts {
		rows = append(rows, row{fmt.Sprintf("CPU time per record, JSON to count, %d classes in random order", classes),
			fmt.Sprintf("%.2f × that of 10 classes (%.0f ns)", float64(best[k])/float64(best[0]), float64(best[k])/float64(n/2)), "≤ 1.6"})
	}
	last := len(counts) - 1
	few, many := b.bare(counts[0]), b.bare(counts[last])
	return append(rows, row{
		fmt.Sprintf("For comparison: a loop that only adds to %d cache lines of a record's class, about as many as counting it changes", bareBlocks*bareLines),
		fmt.Sprintf("%.0f ns more per record with %d classes than with %d; decode and count take %.0f ns more", many-few, counts[last], counts[0], float64(best[last]-best[0])/float64(n/2)), "",
	})
}

// A minute of a class is about 36 cache lines in six blocks: the class, its bucket, the list of buckets, the values of
// two sketches and the counters of tenants. A record reads or changes about twelve of them.
const (
	bareBlocks = 6
	bareLines  = 2  // changed in each block
	blockWords = 48 // six cache lines
)

// applyAt applies requests without ids, with their times shifted.
func (b *bench) applyAt(p *pipeline.Pipeline, rs []ingest.Request, shift time.Duration) {
	var batch ingest.Batch
	for part := range slices.Chunk(rs, partRecords) {
		batch.Reset()
		for _, r := range part {
			r.ID = ""
			for _, t := range []*time.Time{&r.ArrivedAt, &r.StartedAt, &r.FirstTokenAt, &r.FinishedAt} {
				*t = t.Add(shift)
			}
			batch.Requests = append(batch.Requests, r)
		}
		p.Apply(&batch, func(*pipeline.Output) {})
	}
}

// bare returns the cost of memory access alone in ns a record, with so many classes in random order.
func (b *bench) bare(classes int) float64 {
	const records = 200_000
	minutes, draw := make([][bareBlocks][]uint64, classes), rand.New(rand.NewPCG(1, 2))
	for block := range bareBlocks {
		for _, i := range draw.Perm(classes) {
			minutes[i][block] = make([]uint64, blockWords)
		}
	}
	best := time.Duration(math.MaxInt64)
	for range rounds {
		used := cpuTime(b.t)
		for range records {
			for _, block := range &minutes[draw.IntN(classes)] {
				for at := 0; at < blockWords; at += blockWords / bareLines {
					block[at]++
				}
			}
		}
		best = min(best, cpuTime(b.t)-used)
	}
	return float64(best) / records
}

// memory measures the windows of ten thousand classes after a day with a busy last half hour, and after two hours of
// silence.
func (b *bench) memory() []row {
	const classes = 10_000
	cfg := features.DefaultConfig()
	cfg.MaxClasses = classes
	a := features.New(cfg)
	names := make([]string, classes)
	for i := range names {
		names[i] = fmt.Sprint("class-", i)
	}
	tenants := make([]string, 1000)
	for i := range tenants {
		tenants[i] = fmt.Sprint("tenant-", i)
	}
	empty := heap()
	minute := func(m, perMinute int) {
		start := benchStart.Add(time.Duration(m) * time.Minute)
		for i := range classes * perMinute {
			at := start.Add(time.Duration(i) * 59 * time.Second / time.Duration(classes*perMinute))
			r := ingest.Request{
				Pool: "chat", Class: names[i%classes], Tenant: tenants[(i*31+m)%len(tenants)], Attempt: 1, Session: uint64(i*1441+m) | 1,
				ArrivedAt: at, StartedAt: at.Add(30 * time.Millisecond), FirstTokenAt: at.Add(400 * time.Millisecond), FinishedAt: at.Add(9 * time.Second),
				PromptTokens: int64(200 + (i*31+m)%4000), CachedTokens: int64((i*17 + m) % 200), OutputTokens: int64(20 + (i*13+m)%700), MaxOutputTokens: ingest.Unknown,
			}
			if reason := a.AddAttempt(&r, features.Earlier{}); reason != "" {
				b.t.Fatal(reason)
			}
		}
		a.Close(start.Add(time.Minute))
	}
	const day, busy, silence = 1440, 30, 120
	for m := range day - busy {
		minute(m, 2)
	}
	for m := range busy {
		minute(day-busy+m, 20)
	}
	active := heap() - empty
	for m := range silence {
		minute(day+m, 0)
	}
	idle := heap() - empty
	runtime.KeepAlive(a)
	return []row{
		{fmt.Sprintf("Heap of the windows of %d active classes after a day of 2 requests per minute each, 20 in its last half hour", classes), fmt.Sprintf("%.0f MiB", active/(1<<20)), "< 1024 MiB"},
		{"Heap of a class that has been silent for two hours", fmt.Sprintf("%.1f KiB", idle/classes/(1<<10)), "< 8 KiB"},
	}
}

func heap() float64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&s)
	return float64(s.HeapInuse)
}

// cpuTime returns the processor time of this process. On a busy machine it is more precise than the clock.
func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// server starts a NATS server with JetStream on a loopback port.
func (b *bench) server() (url string) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: b.t.TempDir(), NoLog: true, NoSigs: true})
	b.check(err)
	s.Start()
	b.t.Cleanup(s.Shutdown)
	if !s.ReadyForConnections(10 * time.Second) {
		b.t.Fatal("the NATS server does not answer")
	}
	return s.ClientURL()
}

func (b *bench) connect(url string) *nats.Conn {
	conn, err := nats.Connect(url)
	b.check(err)
	return conn
}

func (b *bench) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(strings.TrimSpace(err.Error()))
	}
}
