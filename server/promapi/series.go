package promapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// The first and last time of Prometheus.
var (
	minTime = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	maxTime = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()
)

// selection is the parameters of series, labels and label values.
type selection struct {
	from, to int64 // Unix ms, both included
	matchers [][]*labels.Matcher
}

// open reads a selection, and opens the series in its time; badSelector makes the error for invalid selectors. Each
// selector must exclude something.
func (a *API) open(r *http.Request, badSelector func(error) error) (q storage.Querier, s selection, err error) {
	start, err := timeParam(r, "start", minTime)
	if err != nil {
		return nil, s, err
	}
	end, err := timeParam(r, "end", maxTime)
	if err != nil {
		return nil, s, err
	}
	s.from, s.to = start.UnixMilli(), end.UnixMilli()
	if s.matchers, err = a.parser.ParseMetricSelectors(r.Form["match[]"]); err != nil {
		return nil, s, badSelector(err)
	}
	for _, set := range s.matchers {
		if !slices.ContainsFunc(set, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return nil, s, badSelector(errors.New("match[] must contain at least one non-empty matcher"))
		}
	}
	q, err = a.data.Querier(s.from, s.to)
	return q, s, err
}

// series lists the label sets of the series that any selector matches.
func (a *API) series(ctx context.Context, r *http.Request) (answer, error) {
	if len(r.Form["match[]"]) == 0 {
		return answer{}, refuse(errors.New("no match[] parameter provided"))
	}
	q, s, err := a.open(r, func(err error) error { return invalid("match[]", err) })
	if err != nil {
		return answer{}, err
	}
	x := answer{done: func() { _ = q.Close() }}
	sets := make([]storage.SeriesSet, len(s.matchers))
	for i, m := range s.matchers {
		sets[i] = q.Select(ctx, true, &storage.SelectHints{Start: s.from, End: s.to, Func: "series"}, m...)
	}
	found := []labels.Labels{}
	all := storage.NewMergeSeriesSet(sets, 0, storage.ChainedSeriesMerge)
	for all.Next() {
		if err := ctx.Err(); err != nil {
			return x, err
		}
		found = append(found, all.At().Labels())
	}
	if err := all.Err(); err != nil {
		return x, err
	}
	x.data, x.warnings = found, all.Warnings()
	return x, nil
}

// labelNames lists the names of labels of the series that any selector matches, or of all.
func (a *API) labelNames(ctx context.Context, r *http.Request) (answer, error) {
	return a.strings(ctx, r, func(q storage.Querier, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelNames(ctx, nil, m...)
	})
}

// labelValues lists the values of one label of the series that any selector matches, or of all.
func (a *API) labelValues(ctx context.Context, r *http.Request) (answer, error) {
	name := r.PathValue("name")
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return answer{}, refuse(fmt.Errorf("invalid label name: %q", name))
	}
	return a.strings(ctx, r, func(q storage.Querier, m []*labels.Matcher) ([]string, annotations.Annotations, error) {
		return q.LabelValues(ctx, name, nil, m...)
	})
}

// strings looks up texts for each selector, or once without any, and merges them in order.
func (a *API) strings(ctx context.Context, r *http.Request, lookUp func(storage.Querier, []*labels.Matcher) ([]string, annotations.Annotations, error)) (answer, error) {
	q, s, err := a.open(r, refuse)
	if err != nil {
		return answer{}, err
	}
	x := answer{done: func() { _ = q.Close() }} // the texts use its memory
	if len(s.matchers) == 0 {
		s.matchers = [][]*labels.Matcher{nil}
	}
	distinct := map[string]struct{}{}
	for _, m := range s.matchers {
		if err := ctx.Err(); err != nil {
			return x, err
		}
		texts, warnings, err := lookUp(q, m)
		if err != nil {
			return x, err
		}
		x.warnings = x.warnings.Merge(warnings)
		for _, text := range texts {
			distinct[text] = struct{}{}
		}
	}
	found := slices.AppendSeq(make([]string, 0, len(distinct)), maps.Keys(distinct))
	slices.Sort(found)
	x.data = found
	return x, nil
}
