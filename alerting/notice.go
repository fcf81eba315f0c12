package alerting

import (
	"context"
	"fmt"
	"time"
)

// Notice is one thing to deliver: a decision that is published, an alert, or a report.
type Notice struct {
	Decision *Decision `cbor:"1,keyasint,omitempty"`
	Alert    *Alert    `cbor:"2,keyasint,omitempty"`
	Report   *Report   `cbor:"3,keyasint,omitempty"`
}

// Delivery is a notice of the log for one sink. It is redelivered, to this daemon or another one, until it is settled.
type Delivery struct {
	Notice  Notice
	Stored  time.Time // by the server's clock
	Waiting int       // number of notices after it, for this sink or others
	// Newer is the notice that has replaced this one in the log; ok is false without one.
	Newer  func(ctx context.Context) (n Notice, ok bool, err error)
	Settle func() error // acknowledges it
	Return func() error // requests its redelivery
}

// Report is the notice of a new report. It does not have the pages.
type Report struct {
	ID      string    `cbor:"1,keyasint" json:"id"`   // always the same for one period
	Name    string    `cbor:"2,keyasint" json:"name"` // of its files, without an extension; likewise
	From    time.Time `cbor:"3,keyasint" json:"from"`
	To      time.Time `cbor:"4,keyasint" json:"to"`
	Summary []string  `cbor:"5,keyasint" json:"summary"` // one sentence each
	When    string    `cbor:"6,keyasint" json:"-"`       // the period in words, in its zone: see [Period]
}

// Period is the period between two times in words, in the location of from, with its name. It has the time of day
// unless both are midnights. layout is the layout of a day.
func Period(from, to time.Time, layout string) string {
	zone := from.Location()
	to = to.In(zone)
	for _, t := range []time.Time{from, to} {
		if h, m, s := t.Clock(); h+m+s > 0 {
			layout += " 15:04"
			break
		}
	}
	return from.Format(layout) + " to " + to.Format(layout) + " " + zone.String()
}

const (
	resolvedLife = 15 * time.Minute     // how long the end of an alert is delivered
	reportLife   = 365 * 24 * time.Hour // the same for a report: only a newer one replaces it
)

// Identity is common to notices that replace each other: of a pool's decisions, an alert, or reports; "" if empty.
func (n Notice) Identity() string {
	switch {
	case n.Decision != nil:
		return "decision/" + n.Decision.Pool
	case n.Alert != nil:
		return "alert/" + n.Alert.Identity()
	case n.Report != nil:
		return "report"
	}
	return ""
}

// ID identifies the notice, also after a restart: the same tick gives the same id.
func (n Notice) ID() string {
	switch {
	case n.Decision != nil:
		return n.Decision.EventID()
	case n.Alert != nil:
		return fmt.Sprintf("%s@%d", n.Alert.Identity(), n.Alert.UpdatedAt.UnixMilli())
	case n.Report != nil:
		return n.Report.ID
	}
	return ""
}

// Life is how long the notice is delivered, counted from when it is stored: advice until it expires, a firing alert
// until its end time, a resolved alert for 15 minutes. Reports practically do not expire.
func (n Notice) Life() time.Duration {
	switch {
	case n.Report != nil:
		return reportLife
	case n.Decision != nil:
		return n.Decision.Expires.Sub(n.Decision.Tick)
	case n.Alert == nil:
		return 0
	case n.Alert.Resolved:
		return resolvedLife
	}
	return n.Alert.EndsAt.Sub(n.Alert.UpdatedAt)
}

// Sink delivers notices to one consumer. Send blocks until the consumer has the notice, or fails. It must be
// idempotent, because a delivery that failed may have arrived. The dispatcher calls one Send at a time per sink. It
// retries until the notice expires, unless a [SendError] says otherwise. A sink may have two more methods, which
// alerting/sink/dispatch.go describes: ID (namer) and KeepsAll (keeper).
type Sink interface {
	Name() string
	Accepts(n Notice) bool // the sink gets no other notices
	Send(ctx context.Context, n Notice) error
}

// SendError is the error of a consumer that says how to go on. Other errors are retried.
type SendError struct {
	Err       error
	Permanent bool          // the consumer refuses this notice: it is not retried
	Gone      bool          // the consumer accepts no more notices
	After     time.Duration // that the consumer asks to wait before the next attempt; 0 if it does not
}

// Error says what the wrapped error says.
func (e SendError) Error() string { return e.Err.Error() }

func (e SendError) Unwrap() error { return e.Err }

// Permanent wraps an error that is not retried.
func Permanent(err error) error { return SendError{Err: err, Permanent: true} }
