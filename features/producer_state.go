package features

import "errors"

// ProducersState is the saved state of a Producers. Times are in nanoseconds.
type ProducersState struct {
	Producers []ProducerSnapshot `cbor:"1,keyasint"` // ordered by name
	Refused   uint64             `cbor:"2,keyasint"`
	Rotated   int64              `cbor:"3,keyasint"`
}

// ProducerSnapshot is one producer in a ProducersState.
type ProducerSnapshot struct {
	Name      string         `cbor:"1,keyasint"`
	Declared  bool           `cbor:"2,keyasint"`
	Records   uint64         `cbor:"3,keyasint"`
	Future    uint64         `cbor:"4,keyasint"`
	Watermark int64          `cbor:"5,keyasint"`
	Heard     int64          `cbor:"6,keyasint"`
	Delays    [2]delays      `cbor:"7,keyasint"`
	Feeds     []FeedSnapshot `cbor:"8,keyasint"`
}

// FeedSnapshot is the state of a producer in one pool.
type FeedSnapshot struct {
	Pool      string `cbor:"1,keyasint"`
	Since     int64  `cbor:"2,keyasint"`
	Heard     int64  `cbor:"3,keyasint"`
	Watermark int64  `cbor:"4,keyasint"`
	Pause     int64  `cbor:"5,keyasint"`
}

// State is a copy of the state; nil before the first tick without records.
func (p *Producers) State() *ProducersState {
	if len(p.list) == 0 && p.refused == 0 && p.rotated == never {
		return nil
	}
	s := &ProducersState{Refused: p.refused, Rotated: int64(p.rotated)}
	for _, x := range p.list {
		ps := ProducerSnapshot{
			Name: x.name, Declared: x.declared, Records: x.records, Future: x.future,
			Watermark: int64(x.watermark), Heard: int64(x.lastSeen), Delays: x.delays,
		}
		for _, f := range x.feeds {
			ps.Feeds = append(ps.Feeds, FeedSnapshot{f.pool, int64(f.firstSeen), int64(f.lastSeen), int64(f.watermark), int64(f.pause)})
		}
		s.Producers = append(s.Producers, ps)
	}
	return s
}

// RestoreProducers continues from a state; nil is none.
func RestoreProducers(cfg ProducersConfig, s *ProducersState) (*Producers, error) {
	p := NewProducers(cfg)
	if s == nil {
		return p, nil
	}
	p.refused, p.rotated = s.Refused, unixTime(s.Rotated)
	for _, ps := range s.Producers {
		if p.byName[ps.Name] != nil || len(p.list) == maxProducers || len(ps.Feeds) > maxFeeds {
			return nil, errors.New("restore producers: one comes twice, or there are too many")
		}
		x := &producer{
			name: ps.Name, declared: ps.Declared, records: ps.Records, future: ps.Future,
			watermark: unixTime(ps.Watermark), lastSeen: unixTime(ps.Heard), delays: ps.Delays,
		}
		for _, f := range ps.Feeds {
			x.feeds = append(x.feeds, feed{f.Pool, unixTime(f.Since), unixTime(f.Heard), unixTime(f.Watermark), unixTime(f.Pause)})
		}
		p.insert(x)
	}
	return p, nil
}
