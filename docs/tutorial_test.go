package docs_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forewarm/forewarm/internal/testenv"
	"github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// shell is a bash that runs the blocks of a page.
type shell struct {
	in  io.Writer
	out *bufio.Reader
}

func startShell(t *testing.T, dir string) *shell {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = io.WriteString(in, "\nkill $(jobs -p) 2> /dev/null; wait; exit\n")
		_ = cmd.Wait()
	})
	return &shell{in, bufio.NewReader(out)}
}

// run runs a block and returns its output. The test fails if a command fails.
func (s *shell) run(t *testing.T, block string) string {
	t.Helper()
	const end = "-- end of the block: "
	fmt.Fprintf(s.in, "set -e -o pipefail\ntrap 'echo; echo \"%sfailed\"' EXIT\n%s\ntrap - EXIT; set +e\necho; echo '%sdone'\n", end, block, end)
	var b strings.Builder
	for {
		line, err := s.out.ReadString('\n')
		if state, ok := strings.CutPrefix(line, end); ok && strings.TrimSpace(state) == "done" {
			return b.String()
		} else if ok || err != nil {
			t.Fatalf("%v in\n%s\nwhich printed\n%s", err, block, b.String())
		}
		b.WriteString(line)
	}
}

var block = regexp.MustCompile("(?s)```(sh|text)\n(.*?)```|<!-- test: (\\w+) -->")

// TestTutorial runs each sh block of the tutorial, and compares its output with the text block after it, line by line;
// … is any text. Ports of the page are replaced by free ones. The engine is a server with the metrics of a vLLM.
func TestTutorial(t *testing.T) {
	if testing.Short() {
		t.Skip("the tutorial replays three hours of traffic")
	}
	for _, program := range []string{"bash", "curl", "awk"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir, metrics := t.TempDir(), read(t, root+"/ingest/scrape/testdata/vllm.txt")
	ports := map[string]string{}
	for _, port := range []string{"4222", "9464", "9465"} {
		ports["127.0.0.1:"+port] = testenv.FreeAddress(t)
	}
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, metrics)
	}))
	defer engine.Close()
	ports["127.0.0.1:8000"] = engine.Listener.Addr().String()
	replace := func(text string) string {
		for from, to := range ports {
			text = strings.ReplaceAll(text, from, to)
		}
		return text
	}
	sh := startShell(t, dir)
	// The page uses the default ports of these.
	sh.run(t, "export FOREWARM_SERVER_LISTEN="+ports["127.0.0.1:9464"]+" FOREWARM_NATS_EMBEDDED_LISTEN="+ports["127.0.0.1:4222"])
	printed := ""
	for _, m := range block.FindAllStringSubmatch(read(t, "tutorial.md"), -1) {
		switch {
		case m[3] == "keda":
			askAsKEDA(t, ports["127.0.0.1:9465"])
		case m[1] == "text":
			compare(t, m[2], printed)
		default:
			text := replace(m[2])
			text = strings.ReplaceAll(text, "go build -o forewarm ./cmd/forewarm", "cp "+path+" forewarm")
			printed = sh.run(t, text)
		}
	}
}

// compare checks that printed has each line of want, in this order.
func compare(t *testing.T, want, printed string) {
	t.Helper()
	lines := strings.Split(printed, "\n")
	for _, w := range strings.Split(strings.TrimSpace(want), "\n") {
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(w)), "…", ".*") + "$")
		i := slices.IndexFunc(lines, func(line string) bool { return pattern.MatchString(strings.TrimSpace(line)) })
		if i < 0 {
			t.Errorf("no line %q in\n%s", w, printed)
			return
		}
		lines = lines[i+1:]
	}
}

// askAsKEDA asks for the number of replicas as KEDA's operator does. It must be 7 or more.
func askAsKEDA(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	object := &externalscalerpb.ScaledObjectRef{Name: "chat", Namespace: "llm", ScalerMetadata: map[string]string{"pool": "chat"}}
	got, err := externalscalerpb.NewExternalScalerClient(conn).GetMetrics(ctx, &externalscalerpb.GetMetricsRequest{ScaledObjectRef: object, MetricName: "forewarm-desired-replicas"}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got.MetricValues {
		if v.MetricValueFloat >= 7 {
			return
		}
	}
	t.Errorf("KEDA gets %v, want 7 or more", got.MetricValues)
}
