package listener

import "sync/atomic"

// Stats counts what a listener was sent.
type Stats struct {
	Listener string                    // http or grpc
	Requests map[string]*atomic.Uint64 // by the status code of the answer; codes that are not listed are "other"
	Bytes    atomic.Uint64             // of bodies, as sent
	Records  atomic.Uint64             // stored
	Ignored  atomic.Uint64             // records that carry no demand
}

func newStats(listener string, codes ...string) *Stats {
	s := &Stats{Listener: listener, Requests: map[string]*atomic.Uint64{"other": new(atomic.Uint64)}}
	for _, code := range codes {
		s.Requests[code] = new(atomic.Uint64)
	}
	return s
}

func (s *Stats) answered(code string) {
	requests := s.Requests[code]
	if requests == nil {
		requests = s.Requests["other"]
	}
	requests.Add(1)
}

func (s *Stats) stored(o *outcome) {
	s.Records.Add(uint64(o.accepted + o.unserved))
	s.Ignored.Add(uint64(o.ignored))
}
