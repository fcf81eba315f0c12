package ingest

import (
	"fmt"
	"regexp"
	"strings"
)

// The subjects of Forewarm, all below a prefix ("forewarm" unless configured). Names of pools, classes and replicas are
// escaped so that each is one token of a NATS subject, and can be read back.

// RequestSubject is where the requests and sums of a class are published; class may be empty.
func RequestSubject(prefix, pool, class string) string {
	return prefix + ".telemetry.request." + EscapeToken(pool) + "." + EscapeToken(class)
}

// ReplicaSubject is where a replica's state is published.
func ReplicaSubject(prefix, pool, replica string) string {
	return prefix + ".telemetry.replica." + EscapeToken(pool) + "." + EscapeToken(replica)
}

// WatermarkSubject is where watermarks are published; an empty pool means time only.
func WatermarkSubject(prefix, pool string) string {
	return prefix + ".telemetry.watermark." + EscapeToken(pool)
}

// HistorySubject is where the history of a class, or of a pool's total, is published.
func HistorySubject(prefix, pool, class string) string {
	return prefix + ".telemetry.history." + EscapeToken(pool) + "." + EscapeToken(class)
}

// DefinitionSubject is where the configuration of a pool is published.
func DefinitionSubject(prefix, pool string) string {
	return prefix + ".telemetry.pool." + EscapeToken(pool)
}

// PrescaleSubject is where a pool's pre-scale events are published; autoscalers answer on prescale.ack.<pool>.
func PrescaleSubject(prefix, pool string) string { return prefix + ".prescale." + EscapeToken(pool) }

// ForecastSubject is where the forecasts of a class are published.
func ForecastSubject(prefix, pool, class string) string {
	return prefix + ".forecast." + EscapeToken(pool) + "." + EscapeToken(class)
}

// AlertSubject is where the alerts of a pool are published.
func AlertSubject(prefix, pool string) string { return prefix + ".alert." + EscapeToken(pool) }

// DecisionSubject is where the log keeps the decisions of a pool.
func DecisionSubject(prefix, pool string) string { return prefix + ".decision." + EscapeToken(pool) }

// NoticeSubject is where the log keeps the notice of a kind, pool and identity; a newer notice replaces the older one.
func NoticeSubject(prefix, kind, pool, identity string) string {
	return prefix + ".notice." + kind + "." + EscapeToken(pool) + "." + EscapeToken(identity)
}

// DeadLetterSubject is where refused telemetry is published.
func DeadLetterSubject(prefix string) string { return prefix + ".deadletter" }

// EscapeToken makes one token of a subject from any name. It percent-encodes, byte by byte, ".", "*", ">" and "%",
// spaces, control characters and all that is not ASCII. The empty name becomes "_".
func EscapeToken(name string) string {
	switch name {
	case "":
		return "_"
	case "_":
		return "%5F"
	}
	return special.ReplaceAllStringFunc(name, func(c string) string {
		return "%" + strings.ReplaceAll(fmt.Sprintf("% X", c), " ", "%")
	})
}

var special = regexp.MustCompile(`[^!-~]|[.*>%]`)
