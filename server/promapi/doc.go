// Package promapi answers Prometheus' HTTP API (query, query_range, series, labels, label values, metadata, exemplars,
// format_query, buildinfo, rules) over stored series, so that Grafana and other programs read Forewarm as a Prometheus
// data source.
//
// Prometheus' own engine parses and evaluates; this package does parameters, limits, errors and JSON. A test compares the
// answers with those of a real Prometheus (compare_test.go). Prometheus' own web/api/v1 would add service discovery,
// scraping, rules and cloud clients: 16 MB of binary for these ten handlers.
//
// It is read-only. Bounds: [Config] for time, samples and concurrency of queries; 11,000 points a series, as in Prometheus;
// 1 MiB of form. It reads the series through an interface, and imports no other package of this module.
package promapi
