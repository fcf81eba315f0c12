package codec

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Kind is the kind of a message, from its subject.
type Kind uint8

// The kinds of message on the telemetry stream.
const (
	KindRequest Kind = iota
	KindReplica
	KindWatermark
	KindAck
)

// Meta is the metadata of a message. Pool, Class and Replica come from the subject and fill missing fields of records.
type Meta struct {
	Kind        Kind
	ContentType string // "" means application/json; parameters such as charset are ignored
	Encoding    string // compression: [EncodingGzip], or "" for none
	Pool, Class string
	Replica     string
	// Source is the name of the producer, from the header [HeaderSource]; "" when unknown. Each producer has its own
	// clock.
	Source string
}

// HeaderSource is the message header in which a producer names itself.
const HeaderSource = "Forewarm-Source"

// ParseSubject reads a subject. Trailing tokens may be missing, because records can name their pool, class and replica.
// ok is false for a subject without telemetry.
func ParseSubject(prefix, subject string) (m Meta, ok bool) {
	rest, ok := strings.CutPrefix(subject, prefix+".")
	area, rest, _ := strings.Cut(rest, ".")
	topic, rest, named := strings.Cut(rest, ".")
	var names [2]string
	given := 0
	for ; named && ok && given < len(names); given++ {
		var token string
		token, rest, named = strings.Cut(rest, ".")
		names[given], ok = unescapeToken(token)
	}
	if !ok || named {
		return Meta{}, false
	}
	switch {
	case area == "telemetry" && topic == "request":
		return Meta{Kind: KindRequest, Pool: names[0], Class: names[1]}, true
	case area == "telemetry" && topic == "replica":
		return Meta{Kind: KindReplica, Pool: names[0], Replica: names[1]}, true
	case area == "telemetry" && topic == "watermark" && given <= 1:
		return Meta{Kind: KindWatermark, Pool: names[0]}, true
	case area == "prescale" && topic == "ack" && given == 1:
		return Meta{Kind: KindAck, Pool: names[0]}, true
	}
	return Meta{}, false
}

// unescapeToken reverses [EscapeToken]. A token of other software may have unescaped characters.
func unescapeToken(token string) (name string, ok bool) {
	if token == "_" { // the empty name
		return "", true
	}
	name, err := url.PathUnescape(token)
	return name, err == nil && name != "" && utf8.ValidString(name)
}
