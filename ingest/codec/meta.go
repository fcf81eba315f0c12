package codec

import (
	"net/url"
	"strings"
	"unicode/utf8"
)

// Kind is what a message is about; adapters derive it from the subject.
type Kind uint8

// The kinds of message on the telemetry stream.
const (
	KindRequest Kind = iota
	KindReplica
	KindWatermark
	KindAck
	KindHistory
	KindDefinition
)

// Meta is what an adapter knows of a message beside its bytes. Pool, Class and Replica come from the subject and fill
// fields that the record leaves out.
type Meta struct {
	Kind        Kind
	ContentType string // "" means application/json; parameters such as charset are ignored
	Encoding    string // how the bytes are compressed: [EncodingGzip], [EncodingZstd], or "" for not at all
	Pool, Class string
	Replica     string
	// Source names the producer that published the message, for clocks differ from producer to producer; "" when it does
	// not say. Adapters take it from the header [HeaderSource].
	Source string
	// Fields are the names that users gave to what foreign formats say; nil leaves it at those which the formats know.
	Fields *FieldMap
}

// HeaderSource is the message header in which a producer names itself.
const HeaderSource = "Forewarm-Source"

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
	case area == "telemetry" && topic == "pool" && given == 1:
		return Meta{Kind: KindDefinition, Pool: names[0]}, true
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
