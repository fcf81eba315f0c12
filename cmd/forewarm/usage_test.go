package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/internal/testenv"
)

const validPool = "pools: [{name: chat, replicas: {max: 4}}]"

// TestUsage: a mistake has exit code 2, a daemon that does not answer 1, and stderr has one line that says what to
// correct.
func TestUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login/api/v1/report" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, "<title>Some page</title>")
	}))
	defer page.Close()
	for name, lines := range map[string][]string{
		"valid.yaml":    {validPool},
		"twice.yaml":    {"pools: [{name: a, replicas: {max: 4}}, {name: b, replicas: {max: 4}}]"},
		"unknown.yaml":  {validPool, "storage: {retenton: 9d}"},
		"bound.yaml":    {validPool, "decision: {quantile: 1.5}"},
		"warmup.yaml":   {"pools:", "  - name: chat", "    replicas: {max: 4}", "    warmup: {p50: 40m, p90: 58m}"},
		"model.yaml":    {"pools: [{name: chat, replicas: {max: 4}, model_config: mamba.json}]"},
		"mamba.json":    {`{"architectures": ["MambaForCausalLM"], "model_type": "mamba", "num_hidden_layers": 64}`},
		"nats.yaml":     {validPool, "nats: {url: 'nats://127.0.0.1:1'}"},
		"login.yaml":    {validPool, "nats: {url: 'nats://u:secret@127.0.0.1:1'}"},
		"port.yaml":     {validPool, "nats: {embedded: {listen: none}}", "server: {listen: '" + taken.Addr().String() + "'}", "log: {level: error}"},
		"embedded.yaml": {validPool, "nats: {embedded: {listen: '" + taken.Addr().String() + "'}}", "log: {level: error}"},
		"trace.csv":     {"t_s,class,prompt_tokens,cached_tokens,output_tokens", "0,chat,10,0,10"},
		"notes.csv":     {"remember the milk"},
		"records.jsonl": {`{"arrived_at":"2026-11-21T06:00:00Z","prompt_tokens":7}`},
	} {
		testenv.WriteFile(t, name, lines...)
	}
	for _, tc := range []struct {
		args string
		code int
		says []string // all of them, in the one line on stderr
	}{
		{"serve -config unknown.yaml", 2, []string{"unknown.yaml:2", "storage.retenton", "unknown key", `"retention"`}},
		{"serve -config bound.yaml", 2, []string{"bound.yaml:2", "decision.quantile", "1.5", "0…0.999", "set a share"}},
		{"serve -config warmup.yaml", 2, []string{"warmup.yaml:4", "pools[chat].warmup.p90", "58m", "at most 54m", "horizon 1h", "shorten"}},
		{"serve -config model.yaml", 2, []string{"model.yaml:1", "pools[chat].model_config", "mamba.json", "num_attention_heads", "kv_capacity_tokens"}},
		{"serve -config nats.yaml", 2, []string{"nats.url", "127.0.0.1:1", "start that server", "run an embedded one"}},
		{"serve -config port.yaml", 2, []string{"server.listen", taken.Addr().String(), "address already in use"}},
		{"serve -config login.yaml", 2, []string{"login.yaml:2", "nats.url", "password", "a key that names a file"}},
		{"serve -config embedded.yaml", 2, []string{"nats.embedded", taken.Addr().String(), "address already in use", "choose another"}},
		{"serve -config none.yaml", 2, []string{"none.yaml", "no such file", "-config"}},
		{"serve valid.yaml", 2, []string{"flags only", `"valid.yaml"`, "serve -h"}},
		{"serve -verbose", 2, []string{"-verbose", "serve -h"}},
		{"serve -conifg valid.yaml", 2, []string{"-conifg", "serve -h"}},
		{"dance", 2, []string{`unknown command "dance"`, "forewarm help"}},
		{"init -metrics http://127.0.0.1:1/metrics", 1, []string{"-metrics", "http://127.0.0.1:1/metrics", "refused", "leave -metrics out"}},
		{"init once", 2, []string{"flags only", `"once"`, "init -h"}},
		{"check", 2, []string{"give -config or -health"}},
		{"check -config=", 2, []string{"give -config or -health"}},
		{"check -offline -health http://127.0.0.1:1/healthz", 2, []string{"-offline needs -config", "leave -offline out"}},
		{"check -offline -config warmup.yaml", 2, []string{"warmup.yaml:4", "58m"}},
		{"check -config nats.yaml", 2, []string{"nats.url"}},
		{"check -health http://127.0.0.1:1/healthz", 1, []string{"127.0.0.1:1", "refused"}},
		{"publish -nats nats://u:secret@127.0.0.1:1", 2, []string{"127.0.0.1:1", "forewarm serve", "-nats"}},
		{"publish -config none.yaml", 2, []string{"none.yaml", "no such file"}},
		{"publish -config valid.yaml -pool nope", 2, []string{"-pool", "nope", "valid.yaml", "name one of its pools"}},
		{"replay -config valid.yaml trace.csv", 2, []string{"-pool", `"trace"`, "valid.yaml", "name one of its pools"}},
		{"publish -cached 9 -input 8", 2, []string{"-cached", "9", "0 to -input, 8"}},
		{"publish -n 0", 2, []string{"-n", "0", "1 or more"}},
		{"replay", 2, []string{"name one TRACE"}},
		{"replay none.csv", 2, []string{"trace", "none.csv", "no such file", "name a readable file"}},
		{"replay notes.csv", 2, []string{"notes.csv", "no known trace format"}},
		{"replay -nats nats://127.0.0.1:1 trace.csv", 2, []string{"nats://127.0.0.1:1", "forewarm serve", "-nats"}},
		{"replay -speed -1 trace.csv", 2, []string{"-speed", "-1", "0 (as fast as possible) or 0.001 to 1e6"}},
		{"replay -start 2026-01-05 records.jsonl", 2, []string{"records.jsonl", "-start and -bin", "CSV"}},
		{"replay -speed fast trace.csv", 2, []string{"-speed", `"fast"`, "replay -h"}},
		{"replay -shift back trace.csv", 2, []string{"-shift", `"back"`, "none, start, end"}},
		{"replay -batch 0 trace.csv", 2, []string{"-batch", "0", "1 to 1000"}},
		{"replay -start monday trace.csv", 2, []string{"-start", `"monday"`, "RFC 3339"}},
		{"backtest", 2, []string{"give TRACE or -prometheus", "trace.csv.gz"}},
		{"backtest -only nope trace.csv", 2, []string{"trace.csv", `no row has the class "nope"`}},
		{"backtest -policies wish trace.csv", 2, []string{`"wish"`, "forewarm"}},
		{"backtest -every 90s trace.csv", 2, []string{"-every", "1m30s", "whole minutes"}},
		{"backtest -peak-replicas -3 trace.csv", 2, []string{"-peak-replicas", "-3", "1…10000"}},
		{"backtest -score-from 2 trace.csv", 2, []string{"-score-from", "2", "0…1"}},
		{"backtest -score-to 0.5 trace.csv", 2, []string{"-score-to", "0.5", "0.666"}},
		{"backtest -warmup-p50 0s trace.csv", 2, []string{"-warmup-p50", "0s"}},
		{"explain", 2, []string{"name one DECISION", "chat-"}},
		{"explain a b", 2, []string{"name one DECISION and not 2", "chat-"}},
		{"explain -format pdf chat", 2, []string{"-format", `"pdf"`, "text, json"}},
		{"explain -url http://127.0.0.1:1 chat", 1, []string{"no daemon answers at http://127.0.0.1:1", "refused", "forewarm serve", "-url is its address", "server.listen"}},
		{"explain -url " + page.URL + " chat", 1, []string{page.URL, "200 OK", "no daemon", "-url must be", "server.listen"}},
		{"report -url " + page.URL + " -format html", 1, []string{page.URL, "no daemon", "-url must be"}},
		{"report -url " + page.URL + "/login", 1, []string{"401 Unauthorized", "-url with a user", "http://user:password@host"}},
		{"plan -from " + page.URL, 1, []string{page.URL, "no daemon", "-from must be"}},
		{"check -health " + page.URL + "/healthz", 1, []string{page.URL, "no daemon", "-health must be"}},
		{"check -health " + page.URL, 2, []string{"-health", page.URL, "/healthz or /readyz"}},
		{"explain -url http://u:secret@127.0.0.1:1 chat", 1, []string{"no daemon answers at http://xxxxx@127.0.0.1:1"}},
		{"explain -url 127.0.0.1:1 chat", 2, []string{"-url", `"127.0.0.1:1"`, "such as http://127.0.0.1:9464"}},
		{"explain -url= chat", 2, []string{"-url", `""`, "such as http://127.0.0.1:9464"}},
		{"plan -from http://127.0.0.1:1", 1, []string{"no daemon answers at http://127.0.0.1:1", "refused", "-from is its address"}},
		{"plan -config valid.yaml -requests-per-s -1", 2, []string{"-requests-per-s", "-1", "above 0"}},
		{"plan -config valid.yaml -requests-per-s 3 -prompt NaN", 2, []string{"-prompt", "NaN"}},
		{"plan -config valid.yaml -prefill-replicas -1 -requests-per-s 3", 2, []string{"-prefill-replicas", "-1", "1 to 100000"}},
		{"plan -config valid.yaml -replicas 0 -requests-per-s 3", 2, []string{"-replicas", "0", "1 to 100000"}},
		{"plan -config valid.yaml -replicas 2.5 -requests-per-s 3", 2, []string{"-replicas", "2.5", "whole"}},
		{"plan -config valid.yaml -requests-per-s 1e300", 2, []string{"-requests-per-s", "1e+300", "at most 1e+09"}},
		{"plan -config valid.yaml -trace trace.csv -prompt 9", 2, []string{"-prompt needs -requests-per-s", "leave -prompt out"}},
		{"plan -config valid.yaml -launch 4", 2, []string{"-launch needs -trace or -requests-per-s or -from"}},
		{"plan", 2, []string{"give -config or -from", "whose pool"}},
		{"plan -config valid.yaml -from http://127.0.0.1:1", 2, []string{"-from does not go with -config", "leave one of them out"}},
		{"plan -config valid.yaml", 2, []string{"no traffic", "model_config"}},
		{"plan -config valid.yaml -pool other -requests-per-s 3", 2, []string{`"other"`, "chat"}},
		{"plan -config twice.yaml -requests-per-s 3", 2, []string{"-pool", "a, b"}},
		{"plan -config valid.yaml -requests-per-s 3 -trace t.csv", 2, []string{"-trace", "-requests-per-s"}},
		{"plan -config valid.yaml -requests-per-s 3 -launch 0", 2, []string{"-launch", "0.001 to 1000"}},
		{"plan -config valid.yaml -requests-per-s 3 -format pdf", 2, []string{`"pdf"`, "html"}},
		{"plan -config valid.yaml -requests-per-s 0", 2, []string{"-requests-per-s"}},
		{"plan -config valid.yaml -requests-per-s 3 -cache-hit 40", 2, []string{"-cache-hit is 40", "0 to 1"}},
		{"plan -config valid.yaml -trace none.csv", 2, []string{"none.csv"}},
		{"plan -from http://127.0.0.1:1 -requests-per-s 9", 2, []string{"-from does not go with -requests-per-s", "leave one of them out"}},
		{"plan -config valid.yaml -requests-per-s 3 -prefill-replicas 2", 2, []string{"-prefill-replicas", "chat", "disaggregated.prefill_replicas.max"}},
		{"plan -from x", 2, []string{"-from", `"x"`, "such as http://127.0.0.1:9464"}},
		{"backtest -days 3 trace.csv", 2, []string{"-days needs -prometheus"}},
		{"backtest -prometheus http://127.0.0.1:1 trace.csv", 2, []string{"-prometheus does not go with TRACE"}},
		{"backtest -prometheus http://127.0.0.1:1 -preset x", 2, []string{"-preset", `"x"`, "vllm"}},
		{"backtest -prometheus http://127.0.0.1:1 -days 0", 2, []string{"-days is 0", "1 to 92"}},
		{"backtest -prometheus http://127.0.0.1:1 -until x", 2, []string{"-until", `"x"`, "RFC 3339"}},
		{"backtest -prometheus http://127.0.0.1:1 -only chat", 2, []string{"-prometheus does not go with -only"}},
		{"backtest -config valid.yaml -warmup-p50 3m trace.csv", 2, []string{"-config does not go with -warmup-p50"}},
		{"check -config=valid.yaml -offline=yes", 2, []string{`"yes"`, "-offline: it must be true or false;"}},
		{"explain -url http://127.0.0.1:1?x=1 chat", 2, []string{"-url", `"http://127.0.0.1:1?x=1"`, "such as http://127.0.0.1:9464"}},
		{"demo -seed -1", 2, []string{"-seed", `"-1"`, "a number"}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			code, _, errs := runHere(t.Context(), strings.Fields(tc.args)...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "forewarm") {
				t.Errorf("want one line, got %q", errs)
			}
			for _, part := range tc.says {
				if !strings.Contains(errs, part) {
					t.Errorf("%q does not say %q", errs, part)
				}
			}
			if strings.Contains(errs, "secret") {
				t.Errorf("%q has a password", errs)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	for args, want := range map[string]string{
		"": "serve", "help": "forewarm COMMAND -h", "-h": "backtest", "--help": "replay", "version": "forewarm ", "serve -h": "-config", "help serve": "-config", "check -h": "usage: forewarm check [flags]\n",
		"explain -h": "usage: forewarm explain [flags] DECISION\n\nDECISION: an event's id",
		"replay -h":  "-speed", "report -h": "-timezone", "publish -h": "-cached", "demo -h": "-once", "backtest -h": "-policies",
	} {
		code, out, errs := runHere(t.Context(), strings.Fields(args)...)
		if code != 0 || !strings.Contains(out, want) || errs != "" {
			t.Errorf("forewarm %s: %d, out %q, stderr %q; want %q", args, code, out, errs, want)
		}
	}
}

// TestSilentDaemon: a daemon that does not answer in time is not one that is not there, and neither is a stopped command.
func TestSilentDaemon(t *testing.T) {
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer silent.Close()
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if code, _, errs := runHere(short, "explain", "-url", silent.URL, "chat"); code != 1 || !strings.Contains(errs, silent.URL+" did not answer within ") {
		t.Errorf("a timeout: %d, %s", code, errs)
	}
	stopped, stop := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, stop)
	if code, _, errs := runHere(stopped, "explain", "-url", silent.URL, "chat"); code != 1 || errs != "forewarm explain: stopped by a signal before it was done\n" {
		t.Errorf("a signal: %d, %s", code, errs)
	}
}

// TestReportAsksTheDaemon: the running daemon makes the report.
func TestReportAsksTheDaemon(t *testing.T) {
	p := startDaemon(t, validPool)
	if code, _, errs := runHere(t.Context(), "report", "-url", p.base); code != 1 || !strings.Contains(errs, "the daemon answers 404 Not Found: the log has no decision") {
		t.Errorf("before the first decision: %d, %s", code, errs)
	}
	if code, _, errs := runHere(t.Context(), "explain", "-url", p.base, "chat"); code != 1 || !strings.Contains(errs, "404 Not Found: no such decision") {
		t.Errorf("before the first decision: %d, %s", code, errs)
	}
	now := time.Now().UTC().Truncate(time.Minute)
	p.publish(t, "forewarm.telemetry.request.chat.talk", fmt.Appendf(nil, `{"arrived_at":%d,"prompt_tokens":100}`, now.UnixMilli()))
	p.publish(t, "forewarm.telemetry.watermark._", fmt.Appendf(nil, `{"at":%d}`, now.Add(time.Minute).UnixMilli()))
	p.settle(t)
	code, out, errs := runHere(t.Context(), "report", "-url", p.base, "-format", "json", "-to", now.Add(time.Hour).Format(time.RFC3339))
	if code != 0 || !strings.Contains(out, `"pools"`) {
		t.Errorf("after it: %d, %s%s", code, out, errs)
	}
	if code, _, errs := runHere(t.Context(), "report", "-url", p.base, "-from", "2020-01-05"); code != 2 || !strings.Contains(errs, "at most 93 days") {
		t.Errorf("a period that is too long: %d, %s", code, errs)
	}
	if code, body := testenv.Get(p.base + "/api/v1/report?format=html"); code != 200 || !strings.HasPrefix(body, "<!doctype html>") {
		t.Errorf("as a page: %d, %.200s", code, body)
	}
	if code, body := testenv.Get(p.base + "/api/v1/report?format=pdf"); code != 400 || !strings.Contains(body, "md, json or html") {
		t.Errorf("in an unknown format: %d, %s", code, body)
	}
}

// TestWarnings: commands that succeed warn of results that are less than expected.
func TestWarnings(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, variable := range os.Environ() { // of tests
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, config.EnvPrefix) {
			t.Setenv(name, "")
		}
	}
	testenv.WriteFile(t, "bare.yaml", validPool)
	testenv.WriteFile(t, "sized.yaml", "pools: [{name: chat, replicas: {max: 4}, decode_tokens_per_s: 400}]")
	testenv.WriteFile(t, "hosted.yaml", "pools: [{name: chat, replicas: {max: 1}, limits: {requests_per_min: 6000}}]")
	testenv.WriteFile(t, "short.csv", "t_s,class,prompt_tokens,cached_tokens,output_tokens", "0,chat,10,0,10", "70,chat,10,0,10")
	for args, want := range map[string]string{
		"check -offline -config bare.yaml": "warning: pool chat has no capacity", "check -offline -config sized.yaml": "",
		"check -offline -config hosted.yaml": "",
		"backtest short.csv":                 "nothing is scored: ", "backtest -config sized.yaml short.csv": "nothing is scored: ",
	} {
		code, out, errs := runHere(t.Context(), strings.Fields(args)...)
		if code != 0 || !strings.Contains(out, want) || want == "" && strings.Contains(out, "warning") {
			t.Errorf("forewarm %s: %d, %s%s", args, code, out, errs)
		}
	}
}

// TestDocumentedFlags: scripts and other programs use these flags.
func TestDocumentedFlags(t *testing.T) {
	required := map[string]string{
		"serve":    "config clock",
		"backtest": "forecasts decisions summary policies peak-replicas every start bin report prometheus",
		"replay":   "shift speed",
		"report":   "from to format url",
		"check":    "config health offline",
	}
	for _, c := range commands {
		f := flag.NewFlagSet(c.name, flag.ContinueOnError)
		c.define(f)
		for name := range strings.FieldsSeq(required[c.name]) {
			if f.Lookup(name) == nil {
				t.Errorf("%s has no flag -%s", c.name, name)
			}
		}
	}
}
