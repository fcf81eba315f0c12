package ingest

import (
	"fmt"
	"regexp"
)

// The subjects of Forewarm below its prefix ("forewarm" unless configured), with the names that follow. Names are
// escaped, so that each is one token of a NATS subject and can be read back.
const (
	RequestSubject    = "telemetry.request"   // requests and sums: pool, class (may be empty)
	ReplicaSubject    = "telemetry.replica"   // states of replicas: pool, replica
	WatermarkSubject  = "telemetry.watermark" // pool; empty for time only
	PrescaleSubject   = "prescale"            // events: pool; autoscalers answer on prescale.ack.<pool>
	ForecastSubject   = "forecast"            // pool, class
	AlertSubject      = "alert"               // pool
	DecisionSubject   = "decision"            // pool
	NoticeSubject     = "notice"              // kind, pool, identity; a newer notice replaces the older one
	DeadLetterSubject = "deadletter"          // refused telemetry
)

// Subject returns a subject of one of these kinds.
func Subject(prefix, kind string, names ...string) string {
	subject := prefix + "." + kind
	for _, name := range names {
		subject += "." + EscapeToken(name)
	}
	return subject
}

// EscapeToken makes one token of a subject from any name. It percent-encodes, byte by byte, ".", "*", ">" and "%",
// spaces, control characters and all that is not ASCII. The empty name becomes "_".
func EscapeToken(name string) string {
	switch name {
	case "":
		return "_"
	case "_":
		return "%5F"
	}
	return Escape(name, special, "%%%02X")
}

// Escape writes each byte of what is special in a text in a format.
func Escape(text string, special *regexp.Regexp, format string) string {
	return special.ReplaceAllStringFunc(text, func(c string) (out string) {
		for _, b := range []byte(c) {
			out += fmt.Sprintf(format, b)
		}
		return out
	})
}

var special = regexp.MustCompile(`[^!-~]|[.*>%]`)
