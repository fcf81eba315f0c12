package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

func TestDecode(t *testing.T) {
	t.Chdir(t.TempDir())
	const usage = `{"created":1795240800,"model":"m","usage":{"prompt_tokens":5,"completion_tokens":2},"choices":["secret words"]}`
	testenv.WriteFile(t, "usage.json", usage)
	testenv.WriteFile(t, "bare.json", `{"prompt_tokens":9}`)
	testenv.WriteFile(t, "replica.json", `{"at":"2026-11-21T06:00:00Z","state":"ready"}`)
	testenv.WriteFile(t, "history.json", `{"dimension":"kv","start":"2026-11-21T06:00:00Z","values":[1,null,2.5]}`)
	testenv.WriteFile(t, "bad.json", `[`+usage+`,{"model":"m","messages":"secret words","usage":{}}]`)
	testenv.WriteFile(t, "queued.json", `{"status":"queued"}`)
	testenv.WriteFile(t, "native.json", `{"pool":"p","prompt_tokens":7,"arrived_at":"2026-11-21T06:00:00Z"}`)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write([]byte(usage))
	z.Close()
	if err := os.WriteFile("usage.json.gz", zipped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]struct {
		code      int
		out, errs string
	}{
		"native.json":                                                        {0, `{"pool":"p","arrived_at":1795240800000,"prompt_tokens":7}`, ""},
		"-format openai usage.json":                                          {0, `{"pool":"m","model":"m","arrived_at":1795240800000,"prompt_tokens":5,"output_tokens":2}`, ""},
		"-format openai -pool q -class c usage.json":                         {0, `"pool":"q","class":"c"`, ""},
		"-format openai usage.json.gz":                                       {0, `"prompt_tokens":5`, ""},
		"-format openai -pool p bare.json":                                   {0, `"finished_at":`, ""}, // the time of now
		"-format openai bad.json usage.json":                                 {1, `"prompt_tokens":5`, "bad.json: missing_field: prompt_tokens is missing"},
		"-format openai queued.json":                                         {0, "", "queued.json: ignored 1: valid, but without demand"},
		"-formats":                                                           {0, "litellm", ""},
		"-subject forewarm.telemetry.replica.p.r replica.json":               {0, `{"pool":"p","replica":"r","at":1795240800000,"state":"ready"}`, ""},
		"-subject forewarm.telemetry.history.p.* history.json":               {0, `{"pool":"p","class":"*","dimension":"kv","start":1795240800000,"values":[1,null,2.5]}`, ""},
		"-subject forewarm.telemetry.request.q.c bare.json":                  {1, "", "bare.json: missing_field: arrived_at is missing"},
		"-subject forewarm.deadletter native.json":                           {2, "", `-subject is "forewarm.deadletter"`},
		"-format openai -pool p bare.json -received-at 2026-11-21T06:00:00Z": {0, `"finished_at":1795240800000`, ""},
	} {
		code, out, errs := runHere(t.Context(), append([]string{"decode"}, strings.Fields(args)...)...)
		if code != want.code || !strings.Contains(out, want.out) || want.out == "" && out != "" || !strings.Contains(errs, want.errs) || want.errs == "" && errs != "" {
			t.Errorf("forewarm decode %s: %d\n%s%s", args, code, out, errs)
		}
		if strings.Contains(out+errs, "words") {
			t.Errorf("forewarm decode %s shows a prompt: %s%s", args, out, errs)
		}
	}
	if _, out, errs := runHere(t.Context(), "decode", "-format", "openai", "bad.json"); strings.Count(out, "\n") != 1 || !strings.HasSuffix(errs, "forewarm decode: 1 refused, 1 understood\n") {
		t.Errorf("one of two records is refused: %s%s", out, errs)
	}

	stdin := os.Stdin
	defer func() { os.Stdin = stdin }()
	for _, args := range [][]string{{}, {"-"}} {
		file, err := os.Open("native.json")
		if err != nil {
			t.Fatal(err)
		}
		os.Stdin = file
		if code, out, errs := runHere(t.Context(), append([]string{"decode"}, args...)...); code != 0 || !strings.Contains(out, `"prompt_tokens":7`) {
			t.Errorf("from the standard input: %d %s%s", code, out, errs)
		}
		file.Close()
	}
}
