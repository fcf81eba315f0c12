package jetstream

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/common/config"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/internal/tlsconfig"
	"github.com/forewarm/forewarm/internal/value"
)

// Connect dials c.URL, or the embedded server e if it is not nil. If the first attempt fails, the error names nats.url.
// Later it reconnects for ever, and logs that if [LogTo] is among the extra options.
func Connect(c Config, e *Embedded, extra ...nats.Option) (*nats.Conn, error) {
	opts, err := c.clientOptions()
	if err != nil {
		return nil, err
	}
	target := c.URL
	if e != nil {
		opts = append(opts, nats.InProcessServer(e), nats.UserInfo(e.user, e.password))
		target = ""
	}
	conn, err := nats.Connect(target, append(opts, extra...)...)
	if errors.As(err, new(*url.Error)) { // its text may have a password
		err = errors.New("it is not a valid URL (in a password, encode /, @ and % as %2F, %40 and %25)")
	}
	switch {
	case err == nil:
		return conn, nil
	case e != nil:
		return nil, fmt.Errorf("nats.embedded: %w", err)
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return nil, fmt.Errorf("nats.url is %q: the server refuses the user: %w; set nats.creds_file, nats.nkey_file, or nats.user with nats.password_file to those of a user of that server",
			value.Redacted(c.URL), err)
	default:
		return nil, fmt.Errorf("nats.url is %q: %w; start that server, correct nats.url or nats.creds_file, or leave both out to run an embedded one",
			value.Redacted(c.URL), err)
	}
}

func (c *Config) clientOptions() ([]nats.Option, error) {
	opts := []nats.Option{
		nats.Name("forewarm"), nats.Timeout(5 * time.Second),
		nats.MaxReconnects(-1), nats.ReconnectWait(250 * time.Millisecond), nats.ReconnectJitter(250*time.Millisecond, time.Second),
		nats.PingInterval(20 * time.Second), nats.MaxPingsOutstanding(2),
		LogTo(zap.NewNop()), // the client library's own default writes to stderr
	}
	switch {
	case c.CredsFile != "":
		opts = append(opts, nats.UserCredentials(c.CredsFile))
	case c.NkeyFile != "":
		nkey, err := nats.NkeyOptionFromSeed(c.NkeyFile)
		if err != nil {
			return nil, fmt.Errorf("nats.nkey_file is %q: %w; name a file that holds an nkey seed", c.NkeyFile, err)
		}
		opts = append(opts, nkey)
	case c.User != "":
		password, err := tlsconfig.ReadSecret("nats.password_file", c.PasswordFile)
		if err != nil {
			return nil, err
		}
		opts = append(opts, nats.UserInfo(c.User, password))
	}
	if c.TLS != (tlsconfig.Client{}) {
		files := c.TLS.Prometheus()
		t, err := config.NewTLSConfig(&files)
		if err != nil {
			return nil, fmt.Errorf("nats.tls: %w", err)
		}
		opts = append(opts, nats.Secure(t))
	}
	return opts, nil
}

// LogTo logs that a connection is lost, back, or refused something.
func LogTo(log *zap.Logger) nats.Option {
	return func(o *nats.Options) error {
		o.DisconnectedErrCB = func(_ *nats.Conn, err error) {
			if err != nil { // nil when we close it ourselves
				log.Warn("NATS connection lost", zap.Error(err))
			}
		}
		o.ReconnectedCB = func(conn *nats.Conn) {
			log.Info("NATS connection is back", zap.String("server", value.Redacted(conn.ConnectedUrl())))
		}
		o.AsyncErrorCB = func(_ *nats.Conn, _ *nats.Subscription, err error) {
			log.Warn("NATS connection", zap.Error(err))
		}
		return nil
	}
}
