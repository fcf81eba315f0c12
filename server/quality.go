package server

import (
	"net/http"
	"time"
)

// Quality is how good forecasts and alarms were, by pool and week.
type Quality struct {
	From  time.Time     `json:"from"`
	To    time.Time     `json:"to"`
	Pools []PoolQuality `json:"pools"`
}

// PoolQuality is the quality of one pool.
type PoolQuality struct {
	Pool     string        `json:"pool"`
	Accuracy []AccuracyRow `json:"accuracy"`
	Weeks    []AlarmWeek   `json:"weeks"`
}

// AccuracyRow is the accuracy of forecasts of one resource and horizon.
type AccuracyRow struct {
	Resource string `json:"resource"`
	Horizon  string `json:"horizon"` // minutes, or window_max for the largest of minutes 15 to 30
	Outcomes int    `json:"outcomes"`
	// Skill is the share of the baseline's loss that is saved; the baseline forecasts the last value. 1 is perfect.
	Skill   number `json:"skill_against_last_value"`
	Covered number `json:"coverage_90"` // share of outcomes that did not exceed the 90 % quantile: 0.9 is right
}

// AlarmWeek is the outcomes of the warnings of a week.
type AlarmWeek struct {
	From    time.Time `json:"from"`
	True    int       `json:"true_warnings"`  // saturation came
	Averted int       `json:"averted"`        // saturation would have come without more replicas
	False   int       `json:"false_warnings"` // neither
	Missed  int       `json:"missed"`         // saturations without a warning
}

// ReportFile is a stored report.
type ReportFile struct {
	Name  string    `json:"name"`
	Made  time.Time `json:"made"`
	Bytes int64     `json:"bytes"`
}

type reportsJSON struct {
	Reports []ReportFile `json:"reports"`
}

func (s *Server) getQuality(r *http.Request) (any, error) { return s.Quality(r.Context()) }

func (s *Server) getReports(*http.Request) (any, error) {
	files, err := s.Reports()
	return reportsJSON{append([]ReportFile{}, files...)}, err
}
