package promapi

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// The first and last time of Prometheus.
var (
	minTime = time.Unix(math.MinInt64/1000+62135596801, 0).UTC()
	maxTime = time.Unix(math.MaxInt64/1000-62135596801, 999999999).UTC()
)

// parseTime reads Unix seconds, with a fraction rounded to milliseconds, or RFC 3339.
func parseTime(s string) (time.Time, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		whole, fraction := math.Modf(f)
		fraction = math.Round(fraction*1000) / 1000
		return time.Unix(int64(whole), int64(fraction*float64(time.Second))).UTC(), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil
	}
	return time.Time{}, fmt.Errorf("cannot parse %q to a valid timestamp", s)
}

// parseDuration reads seconds, with a fraction, or a Prometheus duration such as 5m.
func parseDuration(s string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		ns := f * float64(time.Second)
		if math.IsNaN(ns) || ns > math.MaxInt64 || ns < math.MinInt64 {
			return 0, fmt.Errorf("cannot parse %q to a valid duration. It overflows int64", s)
		}
		return time.Duration(ns), nil
	}
	if d, err := model.ParseDuration(s); err == nil {
		return time.Duration(d), nil
	}
	return 0, fmt.Errorf("cannot parse %q to a valid duration", s)
}

// timeParam reads an optional time.
func timeParam(r *http.Request, name string, absent time.Time) (time.Time, *failure) {
	s := r.Form.Get(name)
	if s == "" {
		return absent, nil
	}
	t, err := parseTime(s)
	if err != nil {
		return t, invalid(name, fmt.Errorf("invalid time value for '%s': %w", name, err))
	}
	return t, nil
}

// limitParam reads an optional limit; 0 means none.
func limitParam(r *http.Request) (int, *failure) {
	s := r.Form.Get("limit")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err == nil && n < 0 {
		err = errors.New("limit must be non-negative")
	}
	if err != nil {
		return 0, invalid("limit", err)
	}
	return n, nil
}

// selection is the parameters of series, labels and label values.
type selection struct {
	from, to int64 // Unix ms, both included
	matchers [][]*labels.Matcher
	limit    int // 0 for none
}

// selectionParams reads a selection; unsound makes the failure for invalid selectors.
func (a *API) selectionParams(r *http.Request, unsound func(error) *failure) (s selection, f *failure) {
	if s.limit, f = limitParam(r); f != nil {
		return s, f
	}
	start, f := timeParam(r, "start", minTime)
	if f != nil {
		return s, f
	}
	end, f := timeParam(r, "end", maxTime)
	if f != nil {
		return s, f
	}
	s.from, s.to = start.UnixMilli(), end.UnixMilli()
	var err error
	if s.matchers, err = a.parseSelectors(r.Form["match[]"]); err != nil {
		return s, unsound(err)
	}
	return s, nil
}

// parseSelectors parses selectors; each must exclude something.
func (a *API) parseSelectors(texts []string) ([][]*labels.Matcher, error) {
	sets, err := a.parser.ParseMetricSelectors(texts)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if !excludes(set) {
			return nil, errors.New("match[] must contain at least one non-empty matcher")
		}
	}
	return sets, nil
}

func excludes(set []*labels.Matcher) bool {
	for _, m := range set {
		if !m.Matches("") {
			return true
		}
	}
	return false
}

// hint requests one more than the limit, to detect a cut result.
func (s *selection) hint() int {
	if s.limit > 0 && s.limit < math.MaxInt {
		return s.limit + 1
	}
	return s.limit
}
