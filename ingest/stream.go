package ingest

import (
	"bytes"
	"slices"

	"github.com/buger/jsonparser"
)

// streams joins the events of streamed responses within one message: each event adds to the response of its id, or to
// the one that was last added to when it has no id.
type streams struct {
	d    *decoder
	open []stream // oldest first
}

type stream struct {
	id     string
	events record
}

// maxStreams bounds the responses that are joined at once; the oldest is closed for the next one.
const maxStreams = 256

// isEvent says whether a record of this type is a part of a streamed response.
func isEvent(object found) bool {
	if object.typ != jsonparser.String {
		return false
	}
	for _, prefix := range [...]string{"chat.completion.chunk", "response.", "message_", "content_block_", "ping"} {
		if bytes.HasPrefix(object.raw, []byte(prefix)) {
			return true
		}
	}
	return false
}

func (s *streams) isOpen(id string) bool {
	return id != "" && slices.ContainsFunc(s.open, func(o stream) bool { return o.id == id })
}

func (s *streams) add(id string, r *record) {
	i := len(s.open) - 1
	if id != "" {
		i = slices.IndexFunc(s.open, func(o stream) bool { return o.id == id })
	}
	if i < 0 {
		if len(s.open) == maxStreams {
			s.end(&s.open[0])
			s.open = slices.Delete(s.open, 0, 1)
		}
		s.open = append(s.open, stream{id, *r})
		return
	}
	s.open[i].events.add(r)
}

// close ends every response.
func (s *streams) close() {
	for i := range s.open {
		s.end(&s.open[i])
	}
}

func (s *streams) end(o *stream) {
	d := s.d
	d.refusal = Refusal{}
	if u := &o.events; u.counted() {
		d.acceptOpenAI(u)
	} else {
		d.fail(ReasonMissingField, "usage is missing in every event of a stream: ask for it by stream_options.include_usage")
	}
	if d.refusal.Reason != "" {
		d.refuse(nil, d.refusal.Reason, "%s", d.refusal.Detail)
	}
}
