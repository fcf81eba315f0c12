package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

const (
	maxAnswer = 16 << 20 // bytes of one answer; a day of minutes is 40 kB
	attempts  = 4        // of one query, where another may help
	pause     = time.Second
)

// Past reads what demand was from a Prometheus.
type Past struct {
	cfg     BackfillConfig
	api     promapi.API
	pause   time.Duration // before the second attempt; each further one waits twice as long
	attempt int
}

// NewPast reads the certificates of cfg and connects to nothing.
func NewPast(cfg BackfillConfig) (*Past, error) {
	transport, err := cfg.transport("backfill")
	if err != nil {
		return nil, err
	}
	client, err := api.NewClient(api.Config{Address: cfg.URL, RoundTripper: bounded{transport}})
	if err != nil {
		return nil, fmt.Errorf("url is %q: %w", cfg.URL, err)
	}
	return &Past{cfg: cfg, api: promapi.NewAPI(client), pause: pause, attempt: attempts}, nil
}

// bounded lets no answer be longer than maxAnswer.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&limited{resp.Body, maxAnswer}, resp.Body}
	}
	return resp, err
}

// limited fails in place of reading more.
type limited struct {
	r    io.Reader
	left int
}

func (l *limited) Read(b []byte) (int, error) {
	if l.left <= 0 {
		return 0, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	}
	n, err := l.r.Read(b[:min(len(b), l.left)])
	l.left -= n
	return n, err
}

// A Question is one query of a source, ready to be asked; Query is "" where there is nothing to ask, for Reason.
type Question struct {
	Name   string // of the query: requests, prefill, decode, kv
	Query  string
	Reason string
}

// Questions of a source whose replicas hold so many KV tokens each, 0 for unknown. They are named like the dimensions of
// demand.
func (s *Source) Questions(kvCapacityTokens float64) []Question {
	d := DefaultQueries()
	out := make([]Question, 0, 4)
	for _, q := range []struct{ name, query, absent string }{
		{"requests", s.Queries.Requests, d.Requests}, {"prefill", s.Queries.Prefill, d.Prefill},
		{"decode", s.Queries.Decode, d.Decode}, {"kv", s.Queries.KV, d.KV},
	} {
		filled, reason := complete(q.query, q.absent, s.Match, kvCapacityTokens)
		out = append(out, Question{q.name, filled, reason})
	}
	return out
}

// Minutes gives the value of a query for n minutes from start on, each evaluated at its end; NaN where there is none. What
// no demand can be (negative, infinite) is not known. It tries again where the server is away or busy. Errors carry the
// query and what the server said.
func (p *Past) Minutes(ctx context.Context, query string, start time.Time, n int) ([]float64, error) {
	var err error
	for i, wait := 0, p.pause; i < p.attempt; i, wait = i+1, 2*wait {
		if i > 0 {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(wait):
			}
		}
		var values []float64
		if values, err = p.ask(ctx, query, start, n); err == nil {
			return values, nil
		}
		var answered *promapi.Error
		if errors.As(err, &answered) && answered.Type != promapi.ErrServer && answered.Type != promapi.ErrTimeout {
			break // the same again
		}
	}
	return nil, fmt.Errorf("query %s of %s: %w", strconv.Quote(query), redacted(p.cfg.URL), err)
}

func (p *Past) ask(ctx context.Context, query string, start time.Time, n int) ([]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	first := start.Add(time.Minute)
	answer, _, err := p.api.QueryRange(ctx, query, promapi.Range{Start: first, End: start.Add(time.Duration(n) * time.Minute), Step: time.Minute})
	if err != nil {
		return nil, err
	}
	matrix, ok := answer.(model.Matrix)
	if !ok || len(matrix) > 1 {
		return nil, &promapi.Error{Type: promapi.ErrBadData, Msg: fmt.Sprintf("the answer has %d series: a sum() around the query makes one of them", len(matrix))}
	}
	values := make([]float64, n)
	for i := range values {
		values[i] = math.NaN()
	}
	for _, series := range matrix {
		for _, x := range series.Values {
			i := int(x.Timestamp.Time().Sub(first) / time.Minute)
			if v := float64(x.Value); i >= 0 && i < n && v >= 0 && !math.IsInf(v, 0) {
				values[i] = v
			}
		}
	}
	return values, nil
}
