package sink

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/internal/httpclient"
	"github.com/forewarm/forewarm/internal/httpguard"
)

// client follows no redirect: only the configuration says where notices go. The context of a request bounds its time.
var client = &http.Client{CheckRedirect: httpclient.NoRedirect}

// post sends a body. It returns nil for 2xx, and else an [alerting.SendError] unless a retry may succeed (no answer,
// 408, 425, 429, 5xx). Errors have the name to, but not the URL, which may be a secret.
func post(ctx context.Context, client *http.Client, url string, header http.Header, body []byte, to string) error {
	err := httpclient.Post(ctx, client, url, header, body)
	if err == nil {
		return nil
	}
	answer, answered := errors.AsType[httpclient.StatusError](err)
	err = fmt.Errorf("post to %s: %w", to, err)
	switch code := answer.Code; {
	case !answered:
		return err
	case code == http.StatusGone:
		return alerting.SendError{Err: err, Gone: true}
	case code/100 == 3:
		return alerting.Permanent(fmt.Errorf("%w: redirects are not followed; set the URL that it leads to", err))
	case code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests, code/100 == 5:
		return alerting.SendError{Err: err, After: answer.After}
	}
	return alerting.Permanent(err)
}

// Target is the URL of a consumer.
type Target struct {
	URL       string `yaml:"url"`        // https, or http to this machine
	URLFile   string `yaml:"url_file"`   // instead of url, if it is a secret; read at each attempt
	AllowHTTP bool   `yaml:"allow_http"` // to other machines, although it is not encrypted
}

// read is the current URL, from the configuration or the file. It refuses invalid ones, and http to another machine
// unless that is allowed. Its errors do not show the URL.
func (t *Target) read() (string, error) {
	raw, key := t.URL, "url"
	if t.URLFile != "" {
		text, err := os.ReadFile(t.URLFile)
		if err != nil {
			return "", fmt.Errorf("url_file: %w", err)
		}
		raw, key = strings.TrimSpace(string(text)), "url_file "+t.URLFile
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("%s: not an https URL; write it like https://hooks.example.org/forewarm", key)
	case u.User != nil:
		return "", fmt.Errorf("%s: it carries a password; leave that out", key)
	case u.Scheme == "http" && !t.AllowHTTP && !httpguard.IsLoopback(u.Hostname()):
		return "", fmt.Errorf("%s: http to another machine can be read on the way; use https, or set allow_http: true", key)
	}
	return raw, nil
}
