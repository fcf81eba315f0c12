package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestFullDisk fills the disk of a daemon. The daemon continues to decide, and reports a degraded history. It is killed
// once, and starts on the full disk. When there is room again, it stores again. The gap is counted, nothing is damaged,
// and the log is complete.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	disk := testenv.SmallDisk(t, 64<<20)
	data := filepath.Join(disk, "data")
	address, page := testenv.FreeAddress(t), testenv.FreeAddress(t)
	config := testenv.WriteFile(t, filepath.Join(t.TempDir(), "forewarm.yaml"),
		"clock: event", "features: {lateness: 0s}", "log: {level: error}",
		"nats: {embedded: {listen: "+address+", store_dir: "+t.TempDir()+"}}",
		"storage: {dir: "+data+", snapshot_every: 100ms}", "server: {listen: "+page+"}", validPool)
	daemon := start(t, "serve", "-config", config)
	up := func() bool {
		s, err := statusOf(page)
		return daemon.over() || err == nil && s.Lag != nil && *s.Lag == 0
	}
	testenv.Await(t, "the daemon to answer", up)
	conn, err := nats.Connect("nats://"+address, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begin := time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)
	minutes := func(from, to int) {
		t.Helper()
		for m := from; m < to; m++ {
			at := begin.Add(time.Duration(m) * time.Minute)
			if err := conn.Publish("forewarm.telemetry.request.chat.talk", fmt.Appendf(nil, `{"arrived_at":%d,"prompt_tokens":100,"output_tokens":10}`, at.UnixMilli())); err != nil {
				t.Fatal(err)
			}
			mark := fmt.Appendf(nil, `{"at":%d}`, at.Add(time.Minute).UnixMilli())
			if _, err := conn.Request(ingest.Subject("forewarm", ingest.WatermarkSubject, "chat"), mark, testenv.Patience); err != nil {
				t.Fatal(err)
			}
		}
		want := begin.Add(time.Duration(to) * time.Minute)
		testenv.Await(t, "the tick of "+want.String(), func() bool {
			s, err := statusOf(page)
			return daemon.over() || err == nil && s.Tick != nil && s.Tick.Equal(want)
		})
	}
	says := func(path, what string) bool {
		_, body := testenv.Get("http://" + page + path)
		return strings.Contains(body, what)
	}

	minutes(0, 10)
	ballast := filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<16))
	}
	_ = f.Close()
	minutes(10, 20)
	for path, what := range map[string]string{
		"/readyz":    "is full: 0 MiB are free, 16 MiB are needed",
		"/metrics?1": "\nforewarm_storage_degraded 1\n", "/metrics?2": "\nforewarm_series_lost_ticks_total 10\n", "/healthz": "ok",
	} {
		if !says(path, what) {
			t.Errorf("%s does not say %q", path, what)
		}
	}
	if err := os.Truncate(ballast, 50<<20); err != nil { // too little room for the history
		t.Fatal(err)
	}
	daemon.kill(t)
	daemon = start(t, "serve", "-config", config)
	testenv.Await(t, "the daemon to start on the full disk", up)
	minutes(20, 25)
	if !says("/metrics", "\nforewarm_storage_degraded 1\n") || says("/metrics", "\nforewarm_series_lost_ticks_total 0\n") {
		t.Error("a daemon that starts on a full disk does not report it")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	last := 30
	for minutes(25, last); !says("/metrics", "\nforewarm_storage_degraded 0\n"); last++ { // the daemon learns of a saved state with the next message
		if last == 300 {
			t.Fatal("there is room, and storage is still degraded")
		}
		minutes(last, last+1)
	}
	if n := testenv.Scalar(t, "http://"+page, "count_over_time(forewarm_desired_replicas[10h])", begin.Add(time.Duration(last)*time.Minute)); int(n) != last-15 {
		t.Errorf("%g ticks are in the history, want the %d before and after the full disk", n, last-15)
	}
	daemon.stop(t)
	want := "up to " + begin.Add(time.Duration(last)*time.Minute).Format(time.RFC3339)
	if got := readStored(t, config).Decisions; !strings.HasPrefix(got, want) {
		t.Errorf("decisions %s, want %s", got, want)
	}
	if found, err := filepath.Glob(filepath.Join(data, "*", "*.tmp")); err != nil || len(found) > 0 {
		t.Errorf("temporary files: %v, %v", found, err)
	}
}

// TestNoRoomToStart: on a full disk serve exits with code 1, not 2, because the configuration is not wrong.
func TestNoRoomToStart(t *testing.T) {
	t.Parallel()
	disk := testenv.SmallDisk(t, 1<<20)
	data := filepath.Join(disk, "data")
	if err := os.MkdirAll(data, 0o750); err != nil {
		t.Fatal(err)
	}
	config := testenv.WriteFile(t, filepath.Join(t.TempDir(), "forewarm.yaml"), "storage: {dir: "+data+"}", "nats: {embedded: {listen: none}}",
		"server: {listen: '127.0.0.1:0'}", "log: {level: error}", validPool)
	if err := os.WriteFile(filepath.Join(disk, "ballast"), make([]byte, 2<<20), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	if code, _, errs := runHere(t.Context(), "serve", "-config", config); code != 1 || !strings.Contains(errs, "is full: 0 MiB are free") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestFullDiskUnderTheStream fills the disk of the embedded NATS server. The daemon reports it within seconds, and
// ticks continue. When there is room again, it takes telemetry without a restart, and no acknowledged message is
// missing.
func TestFullDiskUnderTheStream(t *testing.T) {
	t.Parallel()
	disk := testenv.SmallDisk(t, 120<<20)
	address, page := testenv.FreeAddress(t), testenv.FreeAddress(t)
	daemon := start(t, "serve", "-config", testenv.WriteFile(t, filepath.Join(t.TempDir(), "forewarm.yaml"),
		"features: {lateness: 0s}", "log: {level: error}", "nats: {embedded: {listen: "+address+"}, stream: {max_bytes: 67108864}}",
		"storage: {dir: "+filepath.Join(disk, "data")+", snapshot_every: 10s}", "server: {listen: "+page+"}", validPool))
	says := func(path, what string) bool {
		_, body := testenv.Get("http://" + page + path)
		return daemon.over() || strings.Contains(body, what)
	}
	tick := func() (at time.Time) {
		if s, err := statusOf(page); err == nil && s.Tick != nil {
			at = *s.Tick
		}
		return at
	}
	testenv.Await(t, "the daemon to answer", func() bool { return says("/readyz", `"tick"`) })
	conn, err := nats.Connect("nats://"+address, nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stored := uint64(0)
	publish := func() bool {
		answer, err := conn.Request("forewarm.telemetry.request.chat.talk", fmt.Appendf(nil, `{"arrived_at":%d,"prompt_tokens":100,"output_tokens":10,"x":%q}`, time.Now().UnixMilli(), strings.Repeat("x", 1<<16)), time.Second)
		if err != nil || !strings.Contains(string(answer.Data), `"seq"`) {
			return false
		}
		stored++
		return true
	}
	for range 50 {
		if !publish() {
			t.Fatal("telemetry is not taken")
		}
	}
	ballast := filepath.Join(disk, "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 1<<12))
	}
	_ = f.Close()
	for publish() {
	}
	full := time.Now()
	for path, what := range map[string]string{"/readyz": "telemetry store: ", "/metrics": "\nforewarm_storage_degraded 1\n"} {
		testenv.Await(t, path+" to report the full disk", func() bool { return says(path, what) })
	}
	if d := time.Since(full); d > 10*time.Second {
		t.Errorf("the full disk was reported after %s, want 10 s or less", d)
	}
	testenv.Await(t, "a tick on the full disk", func() bool { return daemon.over() || !tick().Before(full) })
	if daemon.over() {
		t.Fatalf("the daemon ended on the full disk:\n%s", daemon.out.String())
	}
	if publish() || !says("/readyz", `"ready": true`) {
		t.Error("telemetry is taken on the full disk, or the daemon is not ready")
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "telemetry to be taken again", publish)
	testenv.Await(t, "the state to be written", func() bool { return says("/readyz", `"detail": "written"`) })
	if s, err := statusOf(page); err != nil || s.Sequence < stored {
		t.Errorf("%d of %d acknowledged messages are applied (%v)", s.Sequence, stored, err)
	}
	daemon.stop(t)
}
