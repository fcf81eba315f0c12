package scrape

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"
)

// The reasons why a scrape fails: a metric label.
const (
	reasonRefused       = "refused" // nobody listens there
	reasonTimeout       = "timeout"
	reasonName          = "name" // the name of the target does not resolve
	reasonTLS           = "tls"
	reasonNetwork       = "network" // any other fault of the connection
	reasonToken         = "token"   // bearer_token_file cannot be read
	reasonUnavailable   = "unavailable"
	reasonStatus        = "status" // another status than 200 and 503
	reasonTooLarge      = "too_large"
	reasonNotMetrics    = "not_metrics"
	reasonBadExposition = "bad_exposition"
	reasonNoEngine      = "no_engine"
)

// Reasons lists why a scrape can fail, for metrics that must exist at zero.
var Reasons = []string{
	reasonRefused, reasonTimeout, reasonName, reasonTLS, reasonNetwork, reasonToken, reasonUnavailable, reasonStatus,
	reasonTooLarge, reasonNotMetrics, reasonBadExposition, reasonNoEngine,
}

// failure is a scrape that failed.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return f.reason + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// reasonOf gives the reason of an error of a request; "" of none.
func reasonOf(err error) string {
	var f *failure
	var name *net.DNSError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &f):
		return f.reason
	case errors.Is(err, syscall.ECONNREFUSED):
		return reasonRefused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return reasonTimeout
	case errors.As(err, &name):
		return reasonName
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &alert):
		return reasonTLS
	}
	return reasonNetwork
}
