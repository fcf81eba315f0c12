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

// Delivery is a notice of the log that a sink has to deal with. It comes again, to this daemon or a twin, until it is settled.
type Delivery struct {
	Notice  Notice
	Stored  time.Time // by the server's clock
	Waiting int       // how many come after it
	// Newer is the notice that has replaced this one in the log, where there is one.
	Newer  func(ctx context.Context) (n Notice, ok bool, err error)
	Settle func() error // it is dealt with
	Return func() error // it is not
}

// Report tells that a report was made. Its pages are with the maker.
type Report struct {
	ID      string    `cbor:"1,keyasint" json:"id"`   // one and the same each time the report of a period is made
	Name    string    `cbor:"2,keyasint" json:"name"` // of its files, without an extension; likewise
	From    time.Time `cbor:"3,keyasint" json:"from"`
	To      time.Time `cbor:"4,keyasint" json:"to"`
	Summary []string  `cbor:"5,keyasint" json:"summary"` // one sentence each
	When    string    `cbor:"6,keyasint" json:"-"`       // From and To for people, by the clock of their zone
}

// Period is the time that the report is about, for people.
func (r *Report) Period() string {
	if r.When != "" {
		return r.When
	}
	return Period(r.From.UTC(), r.To.UTC(), "2 Jan 2006")
}

// Period is the time between two for people, by the clock of from's location, which it names, with the time of day unless both
// are midnights. layout is that of a day.
func Period(from, to time.Time, layout string) string {
	zone := from.Location()
	to = to.In(zone)
	for _, t := range []time.Time{from, to} {
		if h, m, s := t.Clock(); h+m+s > 0 {
			layout += " 15:04"
			break
		}
	}
	return Clock(from, layout) + " to " + Clock(to, layout) + " " + zone.String()
}

// Clock is what clocks show at t where it is: with the zone's abbreviation when they show it twice, because they are set
// back.
func Clock(t time.Time, layout string) string {
	const most = 3 * time.Hour // by which clocks are set back
	_, ahead := t.Zone()
	_, before := t.Add(-most).Zone()
	_, after := t.Add(most).Zone()
	for _, other := range []int{before, after} {
		again := t.Add(time.Duration(ahead-other) * time.Second)
		if _, offset := again.Zone(); other != ahead && offset == other {
			return t.Format(layout + " MST")
		}
	}
	return t.Format(layout)
}

const (
	// resolvedLife is for how long the end of an alert is worth telling.
	resolvedLife = 15 * time.Minute
	// reportLife is that of a report: it waits for the sink that missed it, and only a newer one takes its place.
	reportLife = 365 * 24 * time.Hour
)

// Identity is what a newer notice replaces: the decision for a pool, an alert while it lasts, or the report. "" for an
// empty notice.
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

// ID tells this notice from all others, now and after a restart: the same tick makes the same id again.
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

// Life is for how long the notice is worth delivering, counted from when it is stored: advice until it expires, an alert that
// fires until it would lapse, the end of an alert for a quarter of an hour. Reports do not lapse.
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

// Sink delivers notices to one consumer. Send blocks until the consumer has the notice, or fails; it must be safe to
// call again with the same notice, because a delivery that failed may have arrived. The dispatcher calls one Send at a
// time per sink, tries again on errors that are neither [Permanent] nor [Gone], not before the time that a [Later] asks for,
// and gives up when the notice lapses.
type Sink interface {
	Name() string
	Send(ctx context.Context, n Notice) error
}

// Permanent wraps an error that trying again cannot mend: the consumer understood the notice and refuses it.
type Permanent struct{ Err error }

// Error says what the wrapped error says.
func (p Permanent) Error() string { return p.Err.Error() }

// Unwrap is the wrapped error.
func (p Permanent) Unwrap() error { return p.Err }

// Gone wraps the error of a consumer that wants no notice any more, now or later.
type Gone struct{ Err error }

// Error says what the wrapped error says.
func (g Gone) Error() string { return g.Err.Error() }

// Unwrap is the wrapped error.
func (g Gone) Unwrap() error { return g.Err }

// Later wraps the error of a consumer that is to be left alone for a while.
type Later struct {
	Err   error
	After time.Duration
}

// Error says what the wrapped error says.
func (l Later) Error() string { return l.Err.Error() }

// Unwrap is the wrapped error.
func (l Later) Unwrap() error { return l.Err }
