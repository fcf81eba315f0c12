// Package server shows what Forewarm knows over HTTP: health, metrics, a JSON API, and pages for people that show what the
// API answers. It only reads: no request changes anything.
//
// Everything is answered from copies that a [Reader] hands out, so that a slow client never holds up the pipeline.
// Fractions and rates are as in the domain packages; JSON carries null for what is unknown, never zero. Bounds: request
// headers, and every phase of a connection, are limited; the listener is on loopback unless configured otherwise.
package server
