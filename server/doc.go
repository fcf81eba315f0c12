// Package server serves Forewarm's state over HTTP: health, metrics, a JSON API, and pages for people from the same
// API. It is read-only: no request changes anything.
//
// All answers come from copies of a [Reader], so that a slow client never delays the pipeline.
// Fractions and rates are as in the domain packages; JSON carries null for what is unknown, never zero. Bounds: request
// headers, and every phase of a connection, are limited; the listener is on loopback unless configured otherwise.
package server
