package sink

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

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/httpclient"
)

// client follows no redirect: only the configuration says where notices go. The context of a request bounds its time.
var client = &http.Client{CheckRedirect: httpclient.NoRedirect}

// maxReply is how many bytes of an error response are read.
const maxReply = 512

// post sends a body. It returns nil for 2xx; the answers 408, 425, 429 and 5xx, and no answer, may be retried. Errors have
// the name to, but not the URL, which may be a secret. They quote the reply, which may have control characters.
func post(ctx context.Context, client *http.Client, target string, header http.Header, body []byte, to string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post to %s: the URL cannot be used", to)
	}
	req.Header = header
	req.Header.Set("User-Agent", "forewarm")
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL
		}
		return fmt.Errorf("post to %s: %w", to, err)
	}
	defer resp.Body.Close()
	code := resp.StatusCode
	if code/100 == 2 {
		return nil
	}
	err = fmt.Errorf("post to %s: %d %s", to, code, http.StatusText(code))
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply)) // if the body is cut, the status is enough
	if reply = bytes.TrimSpace(reply); len(reply) > 0 {
		err = fmt.Errorf("%w: %q", err, reply)
	}
	switch {
	case code == http.StatusGone:
		return alerting.SendError{Err: err, Gone: true}
	case code/100 == 3:
		return alerting.Permanent(fmt.Errorf("%w: redirects are not followed; set the URL that it leads to", err))
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code/100 == 5:
		return alerting.SendError{Err: err, After: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
	return alerting.Permanent(err)
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
