package scrape

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"syscall"
)

// Reason is why a scrape failed: a metric label.
type Reason uint8

// The reasons of failure.
const (
	reasonRefused Reason = iota // nobody listens there
	reasonTimeout
	reasonName // the name of the target does not resolve
	reasonTLS
	reasonNetwork // any other fault of the connection
	reasonToken   // bearer_token_file cannot be read
	reasonUnavailable
	reasonStatus // another status than 200 and 503
	reasonTooLarge
	reasonNotMetrics
	reasonBadExposition
	reasonNoEngine

	reasonCount
)

var reasonNames = [reasonCount]string{
	"refused", "timeout", "name", "tls", "network", "token", "unavailable", "status", "too_large", "not_metrics", "bad_exposition", "no_engine",
}

// String gives the name that metrics use.
func (r Reason) String() string { return reasonNames[r] }

// failure is a scrape that failed.
type failure struct {
	reason Reason
	err    error
}

func (f *failure) Error() string { return f.reason.String() + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// reasonOf gives the reason of an error of a request.
func reasonOf(err error) Reason {
	var f *failure
	var name *net.DNSError
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
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
