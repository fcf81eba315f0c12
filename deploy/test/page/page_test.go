// Package page tests Forewarm's pages in Chromium: no errors, the numbers of the API, and accessibility.
package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

const patience = 2 * time.Minute

// missing skips a test that needs a missing program. In CI it fails the test.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("FOREWARM_CI") == "1" {
		t.Fatal(what)
	}
	t.Skip(what)
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	missing(t, "chromium is missing; install Debian's package chromium")
	return ""
}

// window is a browser window, and its errors.
type window struct {
	context.Context
	mu     sync.Mutex
	errors []string
}

func open(t *testing.T, width, height int) *window {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.WindowSize(width, height))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	w := &window{Context: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			w.errors = append(w.errors, e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError {
				w.errors = append(w.errors, fmt.Sprint(e.Args))
			}
		case *log.EventEntryAdded: // refusals by the Content-Security-Policy, and failed loads
			if e.Entry.Level == log.LevelError {
				w.errors = append(w.errors, e.Entry.Text+" "+e.Entry.URL)
			}
		}
	})
	return w
}

func (w *window) run(t *testing.T, what string, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(w, actions...); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.errors {
		t.Errorf("%s: error in the browser: %s", what, e)
	}
	w.errors = nil
}

// paths are the pages, with the element that a test waits for.
var paths = map[string]string{
	"/": "tr[data-pool=chat]", "/pools/chat": "[data-part=timeline] svg", "/pools/chat/classes/talk": "figure svg", "/what-if?pool=chat&launch=3": "[data-part=sheet] table",
	"/explain/chat": "pre",
}

// TestPages opens each page at three sizes and in two themes. The console has no error. Neither the page nor a table
// scrolls sideways. axe finds nothing.
func TestPages(t *testing.T) {
	chromium(t)
	d := startDaemon(t)
	axe := axeCore(t)
	for _, width := range []int64{1280, 900, 390} {
		for path, part := range paths {
			for _, theme := range []string{"light", "dark"} {
				t.Run(fmt.Sprintf("%s at %d, %s", path, width, theme), func(t *testing.T) { checkPage(t, d.url+path, part, width, theme, axe) })
			}
		}
	}
}

// checkPage opens a page in a window of the given width and theme.
func checkPage(t *testing.T, url, part string, width int64, theme, axe string) {
	w := open(t, int(width), 900)
	var pageWidth int64
	var scrolling []string
	w.run(t, url, emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}),
		chromedp.EmulateViewport(width, 900), chromedp.Navigate(url), chromedp.WaitVisible(part, chromedp.ByQuery),
		chromedp.Evaluate("document.documentElement.scrollWidth", &pageWidth),
		chromedp.Evaluate(`[...document.querySelectorAll(".scroll:has(table)")].filter(s => s.scrollWidth > s.clientWidth + 1).map(s => s.textContent.slice(0, 60))`, &scrolling))
	if pageWidth > width || len(scrolling) > 0 {
		t.Errorf("the page is %d wide in a window of %d, and these tables scroll: %q", pageWidth, width, scrolling)
	}
	if axe == "" {
		t.Skip("axe-core is missing, because npm or its registry is; install Debian's package npm")
	}
	var found []string
	w.run(t, url, chromedp.Evaluate(axe, nil), chromedp.Evaluate(`axe.run().then(r => r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.map(n => n.html).slice(0, 3).join(" ")))`, &found,
		func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	for _, f := range found {
		t.Error(f)
	}
}

// TestNumbers: the page shows the numbers of the API, and the slider shows another moment without a reload.
func TestNumbers(t *testing.T) {
	chromium(t)
	d := startDaemon(t)
	w := open(t, 1280, 900)
	var pool struct {
		Headroom    float64 `json:"headroom_now"`
		Probability float64 `json:"saturation_probability_60m"`
		Resources   []struct {
			Resource    string
			Demand      float64
			PerReplica  float64 `json:"replica_capacity"`
			Utilisation float64
		}
	}
	d.ask(t, "/api/v1/pools/chat", &pool)
	value := func(selector string) (v float64) {
		t.Helper()
		var text string
		w.run(t, selector, chromedp.AttributeValue(selector+" data", "value", &text, nil, chromedp.ByQuery))
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Errorf("%s: %v", selector, err)
		}
		return v
	}
	same := func(selector string, want float64) {
		t.Helper()
		if got := value(selector); got != want {
			t.Errorf("%s shows %g, the API %g", selector, got, want)
		}
	}
	w.run(t, "fleet", chromedp.Navigate(d.url+"/"), chromedp.WaitVisible("tr[data-pool=chat]", chromedp.ByQuery))
	same("tr[data-pool=chat] [data-field=headroom_now]", pool.Headroom)
	same("tr[data-pool=chat] [data-field=saturation_probability_60m]", pool.Probability)
	w.run(t, "pool", chromedp.Navigate(d.url+"/pools/chat"), chromedp.WaitVisible("[data-part=timeline] svg", chromedp.ByQuery))
	same("dd[data-field=headroom_now]", pool.Headroom)
	if len(pool.Resources) == 0 {
		t.Error("no resources")
	}
	for _, r := range pool.Resources {
		row := "tr[data-resource=" + r.Resource + "] "
		same(row+"[data-field=demand]", r.Demand)
		same(row+"[data-field=replica_capacity]", r.PerReplica)
		same(row+"[data-field=utilisation]", r.Utilisation)
	}

	var timeline struct {
		Newest   time.Time
		Forecast []struct{ P50 float64 }
	}
	d.ask(t, "/api/v1/pools/chat/timeline", &timeline)
	at := timeline.Newest.Add(-30 * time.Minute).Unix()
	w.run(t, "slider", chromedp.Evaluate(fmt.Sprintf(`window.stayed = true; at.value = %d; at.dispatchEvent(new Event("input", {bubbles: true})); true`, at), nil),
		chromedp.WaitVisible(fmt.Sprintf("[data-part=timeline][data-at='%d']", at), chromedp.ByQuery), chromedp.Evaluate("forecast.open = true", nil))
	d.ask(t, fmt.Sprintf("/api/v1/pools/chat/timeline?at=%d", at), &timeline)
	same("#forecast td[data-field=p50]", timeline.Forecast[0].P50)
	var stayed bool // the page was not loaded again
	var address string
	w.run(t, "address", chromedp.Evaluate("window.stayed === true", &stayed), chromedp.Location(&address))
	if !stayed || !strings.Contains(address, fmt.Sprintf("at=%d", at)) {
		t.Errorf("the page was loaded again (%t), or its address %s does not have the moment", !stayed, address)
	}
}

// axeCore returns the source of axe-core, "" if it cannot be installed.
func axeCore(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		return ""
	}
	dir := t.TempDir()
	manifest, err := os.ReadFile("package.json")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "package.json"), manifest, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(t.Context(), npm, "install", "--ignore-scripts", "--no-audit", "--no-fund")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Logf("npm install: %v\n%s", err, out)
		return ""
	}
	source, err := os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}

// daemon is a Forewarm process with three hours of telemetry.
type daemon struct{ url string }

func startDaemon(t *testing.T) *daemon {
	t.Helper()
	dir := t.TempDir()
	program, nats, address := filepath.Join(dir, "forewarm"), freeAddress(t), freeAddress(t)
	build := exec.Command("go", "build", "-o", program, "./cmd/forewarm")
	build.Dir = "../../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	config, trace := filepath.Join(dir, "forewarm.yaml"), filepath.Join(dir, "trace.csv")
	rows := bytes.NewBufferString("t_s,class,prompt_tokens,cached_tokens,output_tokens\n")
	for at := range 3 * 3600 {
		fmt.Fprintf(rows, "%d,talk,500,0,%d\n", at, 700+at%200+at/40)
	}
	err := os.WriteFile(trace, rows.Bytes(), 0o600)
	if err == nil {
		err = os.WriteFile(config, fmt.Appendf(nil, `
clock: event
storage: {dir: %s/data}
server: {listen: %q}
nats: {embedded: {listen: %q}}
pools: [{name: chat, decode_tokens_per_s: 400, prefill_tokens_per_s: 9000, kv_capacity_tokens: 60000, replicas: {min: 1, max: 9, initial: 4}}]
`, dir, address, nats), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	var logged bytes.Buffer
	serve := exec.Command(program, "serve", "-config", config)
	serve.Stderr = &logged
	if err := serve.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = serve.Process.Signal(os.Interrupt)
		if err := serve.Wait(); err != nil {
			t.Errorf("serve: %v\n%s", err, logged.String())
		}
	})
	d := &daemon{"http://" + address}
	await(t, "the daemon to be alive", func() bool {
		_, err := fetch(d.url + "/healthz")
		return err == nil
	})
	if out, err := exec.Command(program, "replay", "-nats", "nats://"+nats, "-pool", "chat", "-batch", "100", trace).CombinedOutput(); err != nil {
		t.Fatalf("replay: %v\n%s", err, out)
	}
	nearlyAll := time.Date(2024, 1, 1, 2, 50, 0, 0, time.UTC)
	await(t, "the telemetry to be counted", func() bool {
		var status struct {
			Lag  *int `json:"stream_lag_messages"`
			Tick *time.Time
		}
		body, err := fetch(d.url + "/api/v1/status")
		return err == nil && json.Unmarshal(body, &status) == nil && status.Lag != nil && *status.Lag == 0 && status.Tick != nil && status.Tick.After(nearlyAll)
	})
	return d
}

func (d *daemon) ask(t *testing.T, path string, into any) {
	t.Helper()
	body, err := fetch(d.url + path)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

func fetch(address string) ([]byte, error) {
	res, err := http.Get(address)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return body, err
}

func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", patience, what)
		case <-poll.C:
		}
	}
}

// ports are tried in this order, each once. They are below those that the system gives to clients.
var ports = rand.Perm(20_000)

// freeAddress returns a loopback address on which nothing listens, a different one each time.
func freeAddress(t *testing.T) string {
	t.Helper()
	for len(ports) > 0 {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+ports[0])
		ports = ports[1:]
		if l, err := net.Listen("tcp", address); err == nil {
			defer l.Close()
			return address
		}
	}
	t.Fatal("no free port was found")
	return ""
}
