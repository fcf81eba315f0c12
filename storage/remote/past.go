package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/sleep"
	"github.com/forewarm/forewarm/internal/value"
)

const (
	maxAnswer    = 16 << 20         // bytes; a day of minutes is 40 kB
	queryTimeout = 30 * time.Second // a query covers a day
	attempts     = 4                // of one query
	pause        = time.Second
)

// Past reads demand history from a Prometheus.
type Past struct {
	url   string
	api   promapi.API
	pause time.Duration // before the second attempt; doubles for each further one
}

// NewPast reads the certificates of cfg. It does not connect.
func NewPast(cfg BackfillConfig) (*Past, error) {
	if err := cfg.Config.Check(cfg.URL); err != nil {
		return nil, err
	}
	transport, err := cfg.API("backfill")
	if err != nil {
		return nil, err
	}
	bound := &http.Client{Transport: bounded{transport}, CheckRedirect: httpclient.NoRedirect}
	client, err := api.NewClient(api.Config{Address: cfg.URL, Client: bound})
	if err != nil {
		return nil, fmt.Errorf("url is %q: %w", cfg.URL, err)
	}
	return &Past{url: cfg.URL, api: promapi.NewAPI(client), pause: pause}, nil
}

// bounded limits responses to maxAnswer. It returns an error if the server is busy, so that the query is repeated.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	if resp.StatusCode == http.StatusTooManyRequests {
		return nil, errors.Join(errors.New(resp.Status), resp.Body.Close())
	}
	return resp, nil
}

// A Question is one query of a source, and its answer.
type Question struct {
	Name   string    // of the query: requests, prefill, decode, kv, replicas
	Query  string    // "" if there is none
	Values []float64 // one a minute; NaN is unknown; nil if all are
	Note   string    // what is unknown; "" if nothing is
}

// Questions returns the queries of a source, by dimension. kvCapacityTokens is that of one replica, 0 if unknown.
func (s *Source) Questions(kvCapacityTokens float64) []Question {
	d := s.defaults()
	return []Question{
		s.question("requests", s.Queries.Requests, d.Requests, kvCapacityTokens),
		s.question("prefill", s.Queries.Prefill, d.Prefill, kvCapacityTokens),
		s.question("decode", s.Queries.Decode, d.Decode, kvCapacityTokens),
		s.question("kv", s.Queries.KV, d.KV, kvCapacityTokens),
	}
}

// Replicas returns the query for the number of ready replicas.
func (s *Source) Replicas() Question {
	return s.question("replicas", s.Queries.Replicas, s.defaults().Replicas, 0)
}

func (s *Source) defaults() Queries { return presets[cmp.Or(s.Preset, "vllm")] }

// question fills in the default query and the variables.
func (s *Source) question(name, query, absent string, kvCapacityTokens float64) Question {
	query = cmp.Or(query, absent)
	switch {
	case query == "":
		return Question{Name: name, Note: fmt.Sprintf("Not asked for: %s, because the preset has no query.", name)}
	case strings.Contains(query, kvVariable) && !(kvCapacityTokens > 0):
		note := fmt.Sprintf("Not asked for: %s, because the KV capacity of a replica is neither configured nor recorded.", name)
		return Question{Name: name, Note: note}
	}
	tokens := strconv.FormatFloat(kvCapacityTokens, 'f', -1, 64)
	return Question{Name: name, Query: strings.NewReplacer(kvVariable, tokens, "$match", s.Match).Replace(query)}
}

// KVCapacity returns the KV cache of one replica at a time, in tokens: the largest of several series, or 0 if unknown.
func (p *Past) KVCapacity(ctx context.Context, s *Source, at time.Time) (tokens float64, err error) {
	q := s.question("kv_capacity", s.Queries.KVCapacity, s.defaults().KVCapacity, 0)
	if q.Query == "" {
		return 0, nil
	}
	err = p.retry(ctx, q.Query, func(ctx context.Context) error {
		answer, _, err := p.api.Query(ctx, q.Query, at)
		vector, ok := answer.(model.Vector)
		if err == nil && !ok {
			return &promapi.Error{Type: promapi.ErrBadData, Msg: "the answer is no vector"}
		}
		for _, sample := range vector {
			if v := kvTokens(sample); v > tokens && !math.IsInf(v, 0) {
				tokens = v
			}
		}
		return err
	})
	return tokens, err
}

// kvTokens reads the capacity from labels, as of vLLM, or from the value; 0 if absent.
func kvTokens(s *model.Sample) float64 {
	number := func(label model.LabelName) float64 {
		x, _ := strconv.ParseFloat(string(s.Metric[label]), 64) // 0 for a text such as None
		return x
	}
	if s.Metric["block_size"] != "" {
		return cmp.Or(number("kv_cache_size_tokens"), number("block_size")*number("num_gpu_blocks"))
	}
	return float64(s.Value)
}

// minutesPerQuery is the span of one query: a day.
const minutesPerQuery = 24 * 60

// Read runs queries for n minutes from start, and sets their values. It calls step, if set, after each day of a query.
func (p *Past) Read(ctx context.Context, questions []Question, start time.Time, n int, step func()) (err error) {
	for i := range questions {
		q := &questions[i]
		if q.Query == "" {
			continue
		}
		if q.Values, err = p.minutes(ctx, q.Query, start, n, step); err != nil {
			return fmt.Errorf("%s: %w", q.Name, err)
		}
		switch known := Known(q.Values); {
		case known == 0:
			q.Values, q.Note = nil, fmt.Sprintf("Without any value: %s by %s.", q.Name, q.Query)
		case known < n:
			q.Note = fmt.Sprintf("Known of %s: %d of %d minutes.", q.Name, known, n)
		}
	}
	return nil
}

// minutes returns the value of a query for n minutes from start, evaluated at the end of each minute. NaN means unknown,
// also for negative and infinite values. It queries a day at a time. Errors have the query.
func (p *Past) minutes(ctx context.Context, query string, start time.Time, n int, step func()) ([]float64, error) {
	values := slices.Repeat([]float64{math.NaN()}, n)
	endOf := func(minute int) time.Time { return start.Add(time.Duration(minute+1) * time.Minute) }
	for at := 0; at < n; at += minutesPerQuery {
		day := values[at:min(at+minutesPerQuery, n)]
		span := promapi.Range{Start: endOf(at), End: endOf(at + len(day) - 1), Step: time.Minute}
		err := p.retry(ctx, query, func(ctx context.Context) error {
			answer, _, err := p.api.QueryRange(ctx, query, span)
			if err != nil {
				return err
			}
			matrix, ok := answer.(model.Matrix)
			if !ok || len(matrix) > 1 {
				why := fmt.Sprintf("the answer has %d series: a sum() around the query makes one of them", len(matrix))
				return &promapi.Error{Type: promapi.ErrBadData, Msg: why}
			}
			for _, series := range matrix {
				for _, x := range series.Values {
					i := int(x.Timestamp.Time().Sub(span.Start) / time.Minute)
					if v := float64(x.Value); i >= 0 && i < len(day) && v >= 0 && !math.IsInf(v, 0) {
						day[i] = v
					}
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if step != nil {
			step()
		}
	}
	return values, nil
}

// retry repeats a query while the server is unreachable or busy.
func (p *Past) retry(ctx context.Context, query string, ask func(ctx context.Context) error) (err error) {
	for i, wait := 0, p.pause; i < attempts; i, wait = i+1, 2*wait {
		if i > 0 && !sleep.For(ctx, wait) {
			return ctx.Err()
		}
		limited, cancel := context.WithTimeout(ctx, queryTimeout)
		err = ask(limited)
		cancel()
		if err == nil {
			return nil
		}
		if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
			err = fmt.Errorf("the answer has more than %d bytes", maxAnswer)
			break
		}
		if answered, ok := errors.AsType[*promapi.Error](err); ok && answered.Type != promapi.ErrServer && answered.Type != promapi.ErrTimeout {
			break // the result would be the same
		}
	}
	return fmt.Errorf("query %s of %s: %w", strconv.Quote(query), value.Redacted(p.url), err)
}

// Known counts the values that are known.
func Known(values []float64) (n int) {
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// Fix describes the fix for a query's error, with the user's names for the address, the queries and the credentials.
func Fix(address, queries, credentials string) string {
	return fmt.Sprintf("check %s, the address of a Prometheus without /api/v1, %s, and %s", address, queries, credentials)
}
