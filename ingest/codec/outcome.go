package codec

import (
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// outcomeOf reads how the request of a record ended. A word that is not known, of a newer version or of a gateway's own,
// is no reason to miss a request whose tokens are counted: they were served.
func (d *decoder) outcomeOf(r *record) ingest.Status {
	read := func() ingest.Status { return d.outcome(r.members[fieldStatus], r.members[fieldCode]) }
	if r.counted() {
		return forgiving(d, read)
	}
	return read()
}

// outcome reads how a request ended: a word, or an HTTP status. Codes by which a server says that it is too busy are
// rejections, whoever is at fault in the others: the request was not served.
func (d *decoder) outcome(word, code found) ingest.Status {
	status := ingest.StatusOK
	if text := d.looseText(word); len(text) > 0 {
		s, ok := outcomes[strings.ToLower(string(text))]
		if !ok {
			if s, ok = codeOutcome(text); !ok {
				d.fail(ingest.ReasonBadEnum, "%s is %s, want a status such as ok, error, rejected, cancelled or an HTTP code", word.name, quoted(text))
			}
		}
		status = s
	}
	if text := d.looseText(code); len(text) > 0 {
		s, ok := codeOutcome(text)
		if !ok {
			if s, ok = outcomes[strings.ToLower(string(text))]; !ok {
				s = ingest.StatusError // an error that has a name
			}
		}
		if status == ingest.StatusOK || status == ingest.StatusCancelled && s == ingest.StatusError || s == ingest.StatusRejected || s == ingest.StatusCancelled {
			status = s // an engine that aborts a request itself says why; a client that leaves does not
		}
	}
	return status
}

// outcomes are the words by which formats say how a request ended, and the names of errors that are rejections.
var outcomes = map[string]ingest.Status{
	"ok": ingest.StatusOK, "success": ingest.StatusOK, "succeeded": ingest.StatusOK, "completed": ingest.StatusOK, "finished": ingest.StatusOK, "stop": ingest.StatusOK,
	"length": ingest.StatusOK, "incomplete": ingest.StatusOK, "eos": ingest.StatusOK, "tool_calls": ingest.StatusOK, "content_filter": ingest.StatusOK,
	"error": ingest.StatusError, "failure": ingest.StatusError, "failed": ingest.StatusError, "timeout": ingest.StatusError, "expired": ingest.StatusError,
	"rejected": ingest.StatusRejected, "rate_limited": ingest.StatusRejected, "overloaded": ingest.StatusRejected, "rate_limit_exceeded": ingest.StatusRejected,
	"rate_limit_error": ingest.StatusRejected, "ratelimiterror": ingest.StatusRejected, "overloaded_error": ingest.StatusRejected,
	"serviceunavailableerror": ingest.StatusRejected,
	"cancelled":               ingest.StatusCancelled, "canceled": ingest.StatusCancelled, "abort": ingest.StatusCancelled, "aborted": ingest.StatusCancelled,
}

// codeOutcome reads an HTTP status; 0 is how proxies log a client that left before there was one, as nginx does by 499.
func codeOutcome(text []byte) (ingest.Status, bool) {
	code, ok := smallInt(text)
	switch {
	case !ok || code > 599 || code > 0 && code < 100:
		return ingest.StatusOK, false
	case code == 0 || code == 499:
		return ingest.StatusCancelled, true
	case code == 429 || code == 503 || code == 529:
		return ingest.StatusRejected, true
	case code >= 400:
		return ingest.StatusError, true
	}
	return ingest.StatusOK, true
}
