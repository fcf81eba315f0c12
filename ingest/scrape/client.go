package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// client asks the targets of one job.
type client struct {
	job  Job
	http *http.Client

	// Owned by the goroutine of Run.
	targets  map[string]*target // by address
	resolved []string           // addresses that the job's name last resolved to; nil before it did
	known    bool               // it had resolved before: an address that is new now was not there then
}

// accept asks for the formats that the parser reads, the cheapest to read first.
const accept = "text/plain;version=0.0.4;q=0.9,application/openmetrics-text;version=1.0.0;q=0.5," +
	"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.3"

func newClient(j Job) (*client, error) {
	j = j.complete()
	transport := &http.Transport{
		MaxIdleConnsPerHost: 1, IdleConnTimeout: 2 * time.Minute, ResponseHeaderTimeout: time.Minute,
		MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
	}
	if j.Scheme == "https" {
		var err error
		if transport.TLSClientConfig, err = j.TLS.Open(); err != nil {
			return nil, fmt.Errorf("tls.%w", err)
		}
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // a redirect leads to a login page, or elsewhere
	return &client{job: j, http: &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

// ask gets and parses what a target exposes. The error is a [failure], or of the connection.
func (c *client) ask(ctx context.Context, address string) (exposition, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.job.Scheme+"://"+address+c.job.Path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	request.Header.Set("User-Agent", "forewarm")
	if c.job.BearerTokenFile != "" {
		token, err := os.ReadFile(c.job.BearerTokenFile)
		if err != nil {
			return nil, &failure{reasonToken, err}
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return nil, &failure{reasonUnavailable, errors.New("it answers 503")}
	default:
		return nil, &failure{reasonStatus, fmt.Errorf("it answers %d; is the path %s right?", response.StatusCode, cmp.Or(c.job.Path, "/"))}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBodyBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxBodyBytes:
		return nil, &failure{reasonTooLarge, fmt.Errorf("the answer has more than %d bytes", maxBodyBytes)}
	}
	return parse(body, response.Header.Get("Content-Type"))
}
