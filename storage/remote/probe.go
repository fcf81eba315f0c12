package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/golang/snappy"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
)

// probeMinutes are asked for by Probe.
const probeMinutes = 60

// Probe asks a query once, over the newest hour before now, and gives the number of minutes that have a value. Errors say
// what to mend.
func (p *Past) Probe(ctx context.Context, query string, now time.Time) (known, minutes int, err error) {
	values, err := p.ask(ctx, query, now.UTC().Truncate(time.Minute).Add(-probeMinutes*time.Minute), probeMinutes)
	if err != nil {
		mend := Mend(err, "backfill.url", "backfill.sources[].queries or match", "the credentials below backfill")
		return 0, 0, fmt.Errorf("query %s of %s: %w; %s", query, redacted(p.url), err, mend)
	}
	for _, v := range values {
		if !math.IsNaN(v) {
			known++
		}
	}
	return known, probeMinutes, nil
}

// Mend says what to do about an error of a query, by the names that the user knows the address, the queries and the credentials by.
func Mend(err error, address, queries, credentials string) string {
	var answered *promapi.Error
	switch {
	case !errors.As(err, &answered):
	case answered.Type == promapi.ErrBadData || answered.Type == promapi.ErrExec:
		return "mend " + queries
	case strings.Contains(answered.Msg, "401") || strings.Contains(answered.Msg, "403"):
		return "check " + credentials
	}
	return "check " + address + ", the address of a Prometheus without /api/v1, and that it can be reached from here"
}

// ProbeWrite sends no samples, which asks for all that sending some would need. Errors say what to mend.
func ProbeWrite(ctx context.Context, c WriteConfig) error {
	transport, err := c.transport("remote_write")
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL, bytes.NewReader(snappy.Encode(nil, nil)))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Content-Type": "application/x-protobuf", "Content-Encoding": "snappy", "X-Prometheus-Remote-Write-Version": "0.1.0", "User-Agent": "forewarm",
	} {
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: bounded{transport}, Timeout: c.Timeout, CheckRedirect: stay}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w; check remote_write.url, and that it can be reached from here", err)
	}
	defer resp.Body.Close()
	reply, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // of a cut answer the status says enough
	mend := "check remote_write.url"
	switch code := resp.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		mend = "check the path of remote_write.url; a Prometheus takes samples at /api/v1/write when it runs with --web.enable-remote-write-receiver"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		mend = "check the credentials and headers below remote_write"
	case code/100 == 3:
		mend = "redirects are not followed; set the url that it leads to"
	case code/100 == 5 || code == http.StatusTooManyRequests:
		mend = "the receiver is there, and in trouble; samples would wait on disk"
	}
	return fmt.Errorf("%s answers %s: %s; %s", redacted(c.URL), resp.Status, bytes.TrimSpace(reply), mend)
}
