package sink

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/httpguard"
)

// maxReply is how many bytes of an error response are read.
const maxReply = 512

// client follows no redirect: only the configuration says where notices go. The context of a request bounds its time.
var client = &http.Client{CheckRedirect: httpclient.Stay}

// post sends req. It returns nil for 2xx, and else an [alerting.SendError] unless a retry may succeed (no answer, 408,
// 425, 429, 5xx). Errors have the name to, but not the URL, which may be a secret.
func post(client *http.Client, req *http.Request, to string) error {
	resp, err := client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*url.Error](err); ok {
			err = e.Err // without the URL
		}
		return fmt.Errorf("post to %s: %w", to, err)
	}
	defer resp.Body.Close()
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, maxReply)) // on an error, the status is enough
	code := resp.StatusCode
	if code/100 == 2 {
		return nil
	}
	err = fmt.Errorf("post to %s: %s: %s", to, printable(resp.Status), printable(strings.TrimSpace(string(reply))))
	switch {
	case code == http.StatusGone:
		return alerting.SendError{Err: err, Gone: true}
	case code/100 == 3:
		return alerting.Permanent(fmt.Errorf("post to %s: %s: redirects are not followed; set the URL that it leads to",
			to, resp.Status))
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code/100 == 5:
		return alerting.SendError{Err: err, After: retryAfter(resp.Header.Get("Retry-After"), time.Now())}
	}
	return alerting.Permanent(err)
}

// printable is text without control characters, which a terminal may interpret.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
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

// Target is the URL of a consumer.
type Target struct {
	URL       string `yaml:"url"`        // https, or http to this machine
	URLFile   string `yaml:"url_file"`   // instead of url, if it is a secret; read at each attempt
	AllowHTTP bool   `yaml:"allow_http"` // to other machines, although it is not encrypted
}

// check refuses invalid URLs, and http to another machine unless that is allowed. Its errors do not show the URL.
func (t *Target) check() error {
	u, err := url.Parse(t.URL)
	switch {
	case (t.URL == "") == (t.URLFile == ""):
		return errors.New("url: set it or url_file, one of the two")
	case t.URL == "":
		return nil
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("url: not an https URL; write it like https://hooks.example.org/forewarm")
	case u.User != nil:
		return errors.New("url: it carries a password; leave that out")
	case u.Scheme == "http" && !t.AllowHTTP && !httpguard.IsLoopback(u.Hostname()):
		return errors.New("url: http to another machine can be read on the way; use https, or set allow_http: true")
	}
	return nil
}

// read is the current URL, from the configuration or the file.
func (t *Target) read() (string, error) {
	if t.URLFile == "" {
		return t.URL, nil
	}
	text, err := os.ReadFile(t.URLFile)
	if err != nil {
		return "", fmt.Errorf("url_file: %w", err)
	}
	fromFile := Target{URL: strings.TrimSpace(string(text)), AllowHTTP: t.AllowHTTP}
	if err := fromFile.check(); err != nil {
		return "", fmt.Errorf("url_file %s: %w", t.URLFile, err)
	}
	return fromFile.URL, nil
}
