package codec

import (
	"bytes"
	"slices"

	"github.com/buger/jsonparser"

	"github.com/forewarm/forewarm/ingest"
)

// streams joins the events of streamed responses within one message: each event adds to the response of its id, or to
// the one that was last added to when it has no id.
type streams struct {
	d      *decoder
	open   []stream // a ring once it is full
	oldest int
	last   int // added to
}

type stream struct {
	id     string
	events record
	count  int
}

// maxStreams bounds the responses that are joined at once; the oldest is closed for the next one.
const maxStreams = 256

// isEvent says whether a record is a part of a streamed response, by its type. Those of a legacy completion have the type
// of a whole one, and a usage of null until the last.
func isEvent(r *record) bool {
	object := r.members[fieldObject]
	if object.typ != jsonparser.String {
		return false
	}
	if string(object.raw) == "text_completion" {
		return r.has(fieldUsage)
	}
	for _, prefix := range [...]string{"chat.completion.chunk", "response.", "message_", "content_block_", "ping", "message-", "content-", "tool-", "citation-"} {
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
	i := s.last
	if id != "" {
		i = slices.IndexFunc(s.open, func(o stream) bool { return o.id == id })
	}
	switch {
	case 0 <= i && i < len(s.open):
		s.open[i].events.add(r)
		s.open[i].count++
		s.last = i
	case len(s.open) < maxStreams:
		s.last = len(s.open)
		s.open = append(s.open, stream{id, *r, 1})
	default:
		s.end(&s.open[s.oldest])
		s.last, s.open[s.oldest] = s.oldest, stream{id, *r, 1}
		s.oldest = (s.oldest + 1) % maxStreams
	}
}

// close ends every response.
func (s *streams) close() {
	for i := range s.open {
		s.end(&s.open[(s.oldest+i)%len(s.open)])
	}
}

func (s *streams) end(o *stream) {
	d := s.d
	d.refusal = ingest.Refusal{}
	switch u := &o.events; {
	case u.counted(), forgiving(d, func() ingest.Status { return d.outcomeOf(u) }) != ingest.StatusOK:
		d.acceptOpenAI(u)
	case string(u.members[fieldStatus].raw) == "requires_action": // an assistant's run, which goes on in another stream
		d.skip()
	case o.count == 1 && u.has(fieldUsage): // each event is a message of its own, and another has the usage
		d.skip()
	default:
		d.fail(ingest.ReasonMissingField, "usage is missing in every event of a stream: ask for it by stream_options.include_usage")
	}
	if d.refusal.Reason != "" {
		d.refuse(nil, d.refusal.Reason, "%s", d.refusal.Detail)
		d.refusal = ingest.Refusal{} // not of the record at hand
	}
}
