package httpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// maxReply is how many bytes of an error response are read.
const maxReply = 512

// StatusError is a response with a status other than 2xx.
type StatusError struct {
	Code  int
	Reply string        // first bytes of the body
	After time.Duration // of the Retry-After header; 0 without one
}

// Error quotes the reply, because a terminal may interpret control characters.
func (e StatusError) Error() string {
	text := fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code))
	if e.Reply != "" {
		text += ": " + strconv.Quote(e.Reply)
	}
	return text
}

// Post sends a body. It returns nil for 2xx, and a [StatusError] for another status. Errors do not have the URL, which
// may be a secret.
func Post(ctx context.Context, client *http.Client, to string, header http.Header, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	req.Header = header
	req.Header.Set("User-Agent", "forewarm")
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			return e.Err // without the URL
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		return nil
	}
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply)) // if the body is cut, the status is enough
	return StatusError{resp.StatusCode, string(bytes.TrimSpace(reply)), retryAfter(resp.Header.Get("Retry-After"), time.Now())}
}

// retryAfter parses a Retry-After header, in seconds or as a date (RFC 9110 §10.2.3); 0 if it has neither.
func retryAfter(text string, now time.Time) time.Duration {
	if s, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(s) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil {
		return max(0, t.Sub(now))
	}
	return 0
}
