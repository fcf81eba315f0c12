// Package promapi answers Prometheus' HTTP API (query, query_range, series, labels, label values, metadata, exemplars,
// format_query, buildinfo, rules) over stored series, so that Grafana and other programs read Forewarm as a Prometheus
// data source.
//
// Parsing and evaluation are Prometheus' own engine; this package is its doors: parameters, limits, errors, JSON. They are
// held against a real Prometheus over the same samples (compare_test.go). Prometheus' own web/api/v1 would do as well, but
// brings service discovery, scraping, rules and cloud clients with it: 16 MB of binary for these ten handlers.
//
// It only reads. Bounds: [Config] for time, samples and concurrency of queries; 11,000 points a series, as in Prometheus;
// 1 MiB of form. It knows the series through an interface, and no other room of this module.
package promapi
