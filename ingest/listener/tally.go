package listener

import "sync/atomic"

// Stats counts what a listener was sent.
type Stats struct {
	Listener string // http or grpc
	Requests []CodeCount
	Bytes    uint64 // of bodies, as sent
	Records  uint64 // stored
	Ignored  uint64 // records that carry no demand
}

// CodeCount counts the requests that were answered with a status code, or with one beside those listed: "other".
type CodeCount struct {
	Code     string
	Requests uint64
}

// tally is the Stats of a listener while it counts.
type tally struct {
	listener                string
	codes                   []string
	requests                []atomic.Uint64
	bytes, records, ignored atomic.Uint64
}

func newTally(listener string, codes ...string) *tally {
	codes = append(codes, "other")
	return &tally{listener: listener, codes: codes, requests: make([]atomic.Uint64, len(codes))}
}

func (t *tally) answered(code string) {
	last := len(t.codes) - 1
	for i, c := range t.codes {
		if c == code || i == last {
			t.requests[i].Add(1)
			return
		}
	}
}

func (t *tally) stored(o *outcome) {
	t.records.Add(uint64(o.accepted + o.unserved))
	t.ignored.Add(uint64(o.ignored))
}

func (t *tally) stats() Stats {
	s := Stats{Listener: t.listener, Bytes: t.bytes.Load(), Records: t.records.Load(), Ignored: t.ignored.Load()}
	for i, code := range t.codes {
		s.Requests = append(s.Requests, CodeCount{code, t.requests[i].Load()})
	}
	return s
}
