package features

import (
	"fmt"
	"math"
	"testing"

	"github.com/forewarm/forewarm/ingest"
)

// TestLoadOfAllAttempts adds calls of 100 prompt and 20 output tokens. The load is the work of engines for all
// attempts, plus the expected work of failed calls that were not retried.
func TestLoadOfAllAttempts(t *testing.T) {
	status := func(s ingest.Status) func(*ingest.Request) { return func(r *ingest.Request) { r.Status = s } }
	ends := func(s float64, output int64) func(*ingest.Request) {
		return func(r *ingest.Request) { r.FinishedAt, r.OutputTokens = at(s), output }
	}
	tests := map[string]struct {
		failed                    []func(*ingest.Request) // the first attempt of every other call
		retried                   bool                    // with success
		requests, prefill, decode float64                 // load over demand
	}{
		"rejected and retried: the work of the call is that of the retry": {[]func(*ingest.Request){phase(ingest.PhaseRejected)}, true, 1.5, 1, 1},
		"rejected and not retried: all of the call is expected":           {[]func(*ingest.Request){phase(ingest.PhaseRejected)}, false, 1, 1, 1},
		"an error after the prompt":                                       {[]func(*ingest.Request){status(ingest.StatusError), times(61, 61.1, 62), tokens(100, ingest.Unknown, 0)}, true, 1.5, 1.5, 1},
		"an error at the end: its output is part of the demand":           {[]func(*ingest.Request){status(ingest.StatusError), times(61, 61.1, 62)}, true, 1.5, 1.5, 1},
		"an error of which only the end is known":                         {[]func(*ingest.Request){status(ingest.StatusError), ends(90, 0)}, true, 1.5, 1.5, 1},
		"an error at once":      {[]func(*ingest.Request){status(ingest.StatusError), ends(60, 0)}, true, 1.5, 1, 1},
		"both attempts succeed": {nil, true, 1.5, 1.5, 1.5},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := New(testConfig())
			for i := range 20 { // from these the expected work is learned
				mustAdd(t, a, request(fmt.Sprint("usual", i), 0))
			}
			a.Close(at(60))
			for i := range 20 {
				first := request(fmt.Sprint(i), 60)
				if i%2 == 0 {
					first = changed(first, tt.failed...)
				}
				mustAdd(t, a, first)
				if i%2 == 0 && tt.retried {
					mustAdd(t, a, changed(request(fmt.Sprint(i), 65), attempt(2)))
				}
			}
			_, pools := a.Close(at(120))
			rows := pools[0].Attempts
			if len(rows) > 0 {
				rows = rows[len(rows)-1:]
			}
			for dimension, want := range map[string]float64{DimRequests: tt.requests, DimPrefill: tt.prefill, DimDecode: tt.decode} {
				if got := LoadFactor(rows, dimension); math.Abs(got-want) > .02 {
					t.Errorf("%s: the load is %.3f times the demand, want %.2f: %+v", dimension, got, want, rows)
				}
			}
		})
	}
}
