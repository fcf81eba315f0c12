package codec

import "bytes"

// plain reads simple JSON objects: no nesting, printable ASCII without escapes, whole numbers. Almost all producers
// write these. Callers use the full JSON reader for all others. That is five times slower: with it alone, a daemon
// processes less than half of the messages that NATS delivers to a subscriber.
type plain struct {
	data []byte
	at   int // of the next byte to read
}

// members reads data, which is one object. It sets v to the value of each member and calls member with its key. It
// returns false, perhaps after some members, if the object is not plain.
func (p *plain) members(v *value, member func(key []byte)) bool {
	if p.next() != '{' {
		return false
	}
	for {
		if p.next() != '"' {
			return false
		}
		key, ok := p.text()
		if !ok || p.next() != ':' || !p.value(v) {
			return false
		}
		member(key)
		switch p.next() {
		case ',':
		case '}':
			return len(bytes.Trim(p.data[p.at:], " \t\r\n")) == 0
		default:
			return false
		}
	}
}

// next reads the next byte that is not white space; 0 at the end.
func (p *plain) next() byte {
	for p.at < len(p.data) {
		c := p.data[p.at]
		p.at++
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
	}
	return 0
}

// text reads a string after its opening quote.
func (p *plain) text() ([]byte, bool) {
	for i, c := range p.data[p.at:] {
		if endsText[c] {
			text := p.data[p.at : p.at+i]
			p.at += i + 1
			return text, c == '"'
		}
	}
	return nil, false
}

// endsText marks the bytes that no plain string has: its closing quote, escapes, and what is not printable ASCII.
var endsText = func() (ends [256]bool) {
	for c := range ends {
		ends[c] = c < ' ' || c > '~' || c == '"' || c == '\\'
	}
	return ends
}()

// value reads a string, a whole number that is not negative, or null.
func (p *plain) value(v *value) (ok bool) {
	switch first := p.next(); {
	case first == '"':
		v.kind = '"'
		v.raw, ok = p.text()
		return ok
	case first == 'n' && bytes.HasPrefix(p.data[p.at:], []byte("ull")):
		v.kind, p.at = 'n', p.at+len("ull")
		return true
	case isDigit(first):
		from := p.at - 1
		for p.at < len(p.data) && isDigit(p.data[p.at]) {
			p.at++
		}
		v.kind, v.raw = '0', p.data[from:p.at]
		return first != '0' || p.at == from+1 // in JSON no other number begins with 0
	}
	return false
}
