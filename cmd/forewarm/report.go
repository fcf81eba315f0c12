package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/server"
)

func runReport(f *flag.FlagSet) action {
	at := f.String("url", "http://127.0.0.1:9464", "`URL` of the running daemon")
	from := f.String("from", "", "start of the period, a `time` in RFC 3339 or a day YYYY-MM-DD of -timezone (default: a week before -to)")
	to := f.String("to", "", "end of the period, a `time` likewise (default: features.revise before the newest decision)")
	timezone := f.String("timezone", "", "IANA `zone` that days begin by, and that times are shown by (default: report.timezone of the daemon)")
	format := "md"
	choice(f, &format, "format", "md (default), json or html", "md", "json", "html")
	return func(ctx context.Context, _ []string, std streams) error {
		query := url.Values{"from": {*from}, "to": {*to}, "timezone": {*timezone}, "format": {format}}
		return askDaemon(ctx, std.out, "-url", *at, "/api/v1/report?"+query.Encode())
	}
}

// daemonTimeout bounds a request to a daemon, which takes up to half a minute to answer.
const daemonTimeout = time.Minute

// askDaemon copies the response of the daemon at base to a path. Errors name the flag that base is from. A response
// without [server.HeaderAPI] is not of a daemon.
func askDaemon(ctx context.Context, w io.Writer, from, base, path string) error {
	at := value.Redacted(base)
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.ContainsAny(base, "?#") {
		return usagef("%s is %q: it must be the URL of a running daemon, such as http://127.0.0.1:9464", from, at)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+path, http.NoBody)
	if err != nil {
		return err
	}
	client, began := http.Client{Timeout: daemonTimeout}, time.Now()
	res, err := client.Do(req)
	switch failed := (*url.Error)(nil); {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled):
		return ctx.Err()
	case errors.As(err, &failed) && failed.Timeout():
		return fmt.Errorf("%s did not answer within %s: see the log of the daemon, and that %s is its address", at, time.Since(began).Round(time.Second), from)
	default:
		return fmt.Errorf("no daemon answers at %s: %w; see that it runs (forewarm serve), and that %s is its address, "+
			"which is server.listen in its configuration", at, errors.Unwrap(err), from)
	}
	defer res.Body.Close()
	switch ours := res.Header.Get(server.HeaderAPI) != ""; {
	case !ours && res.StatusCode == http.StatusUnauthorized:
		return fmt.Errorf("%s answers %s: write %s with a user it knows, as in http://user:password@host", at, res.Status, from)
	case !ours:
		return fmt.Errorf("%s answers %s, but is no daemon: %s must be the address of one, which is server.listen in its configuration", at, res.Status, from)
	case res.StatusCode != http.StatusOK:
		var p server.Problem
		_ = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&p) // the status is enough
		err := fmt.Errorf("the daemon answers %s: %s", res.Status, cmp.Or(p.Detail, "see its log"))
		if res.StatusCode == http.StatusBadRequest {
			return usageError{err}
		}
		return err
	}
	_, err = io.Copy(w, res.Body)
	return err
}
