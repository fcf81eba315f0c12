package ingest

import "strings"

// outcomeOf reads how the request of a record ended. A word that is not known, of a newer version or of a gateway's own,
// is no reason to miss a request whose tokens are counted: they were served.
func (d *decoder) outcomeOf(r *record) Status {
	read := func() Status { return d.outcome(r.members[fieldStatus], r.members[fieldCode]) }
	if r.counted() {
		return forgiving(d, read)
	}
	return read()
}

// outcome reads how a request ended: a word, or an HTTP status. Codes by which a server says that it is too busy are
// rejections, whoever is at fault in the others: the request was not served.
func (d *decoder) outcome(word, code found) Status {
	status := StatusOK
	if text := d.looseText(word); len(text) > 0 {
		s, ok := outcomes[strings.ToLower(string(text))]
		if !ok {
			if s, ok = codeOutcome(text); !ok {
				d.fail(ReasonBadEnum, "%s is %s, want a status such as ok, error, rejected, cancelled or an HTTP code", word.name, quoted(text))
			}
		}
		status = s
	}
	if text := d.looseText(code); len(text) > 0 {
		s, ok := codeOutcome(text)
		if !ok {
			if s, ok = outcomes[strings.ToLower(string(text))]; !ok {
				s = StatusError // an error that has a name
			}
		}
		if status == StatusOK || status == StatusCancelled && s == StatusError || s == StatusRejected || s == StatusCancelled {
			status = s // an engine that aborts a request itself says why; a client that leaves does not
		}
	}
	return status
}

// outcomes are the words by which formats say how a request ended, and the names of errors that are rejections.
var outcomes = map[string]Status{
	"ok": StatusOK, "success": StatusOK, "succeeded": StatusOK, "completed": StatusOK, "finished": StatusOK, "stop": StatusOK,
	"length": StatusOK, "incomplete": StatusOK, "eos": StatusOK, "tool_calls": StatusOK, "content_filter": StatusOK,
	"error": StatusError, "failure": StatusError, "failed": StatusError, "timeout": StatusError, "expired": StatusError,
	"rejected": StatusRejected, "rate_limited": StatusRejected, "overloaded": StatusRejected, "rate_limit_exceeded": StatusRejected,
	"rate_limit_error": StatusRejected, "ratelimiterror": StatusRejected, "overloaded_error": StatusRejected,
	"serviceunavailableerror": StatusRejected,
	"cancelled":               StatusCancelled, "canceled": StatusCancelled, "abort": StatusCancelled, "aborted": StatusCancelled,
}

// codeOutcome reads an HTTP status; 0 is how proxies log a client that left before there was one, as nginx does by 499.
func codeOutcome(text []byte) (Status, bool) {
	code, ok := smallInt(text)
	switch {
	case !ok || code > 599 || code > 0 && code < 100:
		return StatusOK, false
	case code == 0 || code == 499:
		return StatusCancelled, true
	case code == 429 || code == 503 || code == 529:
		return StatusRejected, true
	case code >= 400:
		return StatusError, true
	}
	return StatusOK, true
}
