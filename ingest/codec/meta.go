package codec

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// ParseSubject reads what a subject says of its message. Trailing tokens may be missing, for records can name their pool,
// class and replica themselves. ok is false for a subject that carries no telemetry.
func ParseSubject(prefix, subject string) (m Meta, ok bool) {
	rest, ok := strings.CutPrefix(subject, prefix+".")
	if !ok {
		return Meta{}, false
	}
	area, rest, _ := strings.Cut(rest, ".")
	topic, rest, named := strings.Cut(rest, ".")
	var names [2]string
	given := 0
	for named {
		if given == len(names) {
			return Meta{}, false
		}
		var token string
		token, rest, named = strings.Cut(rest, ".")
		if names[given], ok = unescapeToken(token); !ok {
			return Meta{}, false
		}
		given++
	}
	switch {
	case area == "telemetry" && topic == "request":
		return Meta{Kind: KindRequest, Pool: names[0], Class: names[1]}, true
	case area == "telemetry" && topic == "replica":
		return Meta{Kind: KindReplica, Pool: names[0], Replica: names[1]}, true
	case area == "telemetry" && topic == "history":
		return Meta{Kind: KindHistory, Pool: names[0], Class: names[1]}, true
	case area == "telemetry" && topic == "watermark" && given <= 1:
		return Meta{Kind: KindWatermark, Pool: names[0]}, true
	case area == "prescale" && topic == "ack" && given == 1:
		return Meta{Kind: KindAck, Pool: names[0]}, true
	}
	return Meta{}, false
}

// unescapeToken undoes [EscapeToken]. A token that other software wrote may hold characters that need no escape.
func unescapeToken(token string) (name string, ok bool) {
	if token == "_" { // the empty name
		return "", true
	}
	name, err := url.PathUnescape(token)
	return name, err == nil && name != "" && utf8.ValidString(name)
}
