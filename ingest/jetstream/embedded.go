package jetstream

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"

	"github.com/forewarm/forewarm/internal/tlsconfig"
)

// maxPayload is the largest message of the embedded server. It is above that of decoders, which count what they refuse.
const maxPayload = 16 << 20

// Bounds of the messages in memory that the stream has not stored yet; further ones are dropped. They fill when producers
// do not wait for an acknowledgement. The server's own bound is about 2 MiB of messages of a usual size.
const (
	bufferedMessages = 1 << 20
	bufferedBytes    = 128 << 20
)

// noMaxStore replaces the server's bound on streams, 3/4 of the free space at its start: it would refuse a stream that
// has grown. [Room] compares with the disk.
const noMaxStore = 1 << 60

// Embedded is a NATS server with JetStream inside this process.
type Embedded struct {
	cfg            Config
	log            *zap.Logger
	user, password string // of the user that may do everything; Connect uses it

	broken atomic.Pointer[error] // see Broken
	server atomic.Pointer[server.Server]
}

// StartEmbedded starts a server and waits until it serves. With c.User set, clients need that user and password. Else
// clients without credentials have permissions, and others the password in [CredentialFile]. Errors name the key.
func StartEmbedded(ctx context.Context, c Config, log *zap.Logger) (*Embedded, error) {
	e := &Embedded{cfg: c, log: log}
	if err := os.MkdirAll(c.Embedded.StoreDir, 0o750); err != nil {
		return nil, fmt.Errorf("nats.embedded.store_dir is %q: %w; name a directory that the daemon may write to", c.Embedded.StoreDir, err)
	}
	if err := e.credential(); err != nil {
		return nil, err
	}
	return e, e.start(ctx)
}

func (e *Embedded) start(ctx context.Context) error {
	opts, err := e.options()
	if err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("nats.embedded: %w", err)
	}
	fatal := make(chan error, 1)
	e.broken.Store(nil)
	s.SetLoggerV2(&serverLog{e.log.Named("nats").Sugar(), fatal, &e.broken}, false, false, false)
	go s.Start()
	for !s.ReadyForConnections(readyPoll) {
		select {
		case err = <-fatal:
		case <-ctx.Done():
			err = ctx.Err()
		default:
			continue
		}
		s.Shutdown()
		return fmt.Errorf("nats.embedded (listen %s, store_dir %s): %w; stop what uses the port or the directory, or choose another",
			e.cfg.Embedded.Listen, e.cfg.Embedded.StoreDir, err)
	}
	e.server.Store(s)
	return nil
}

// readyPoll is how often a starting server is asked whether it failed; recovering a large store takes a while.
const readyPoll = 100 * time.Millisecond

// Broken is the first failed write since the server was opened; nil for none. After it the stream takes no message until
// [Embedded.Reopen].
func (e *Embedded) Broken() error {
	if err := e.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// Reopen restarts the server at the same address, with what it has stored. Clients reconnect by themselves.
func (e *Embedded) Reopen(ctx context.Context) error {
	e.Shutdown()
	return e.start(ctx)
}

func (e *Embedded) options() (*server.Options, error) {
	c := &e.cfg
	every, err := c.Embedded.interval()
	if err != nil {
		return nil, fmt.Errorf("nats.%w", err)
	}
	opts := &server.Options{
		ServerName: "forewarm", JetStream: true, StoreDir: c.Embedded.StoreDir, JetStreamMaxStore: noMaxStore, MaxPayload: maxPayload,
		SyncInterval: every, SyncAlways: c.Embedded.Sync == SyncAlways,
		StreamMaxBufferedMsgs: bufferedMessages, StreamMaxBufferedSize: bufferedBytes,
		NoSigs: true, DisableJetStreamBanner: true, DontListen: c.Embedded.Listen == listenNone,
		Users: []*server.User{{Username: e.user, Password: e.password}},
	}
	if c.User == "" {
		opts.NoAuthUser = anyone
		opts.Users = append(opts.Users, &server.User{Username: anyone, Password: rand.Text(), Permissions: c.permissions()})
	}
	if opts.DontListen {
		return opts, nil
	}
	host, port, _ := net.SplitHostPort(c.Embedded.Listen) // Check has split it
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("nats.embedded.listen is %q: it must be host:port, or none", c.Embedded.Listen)
	}
	opts.Host, opts.Port = host, cmp.Or(number, server.RANDOM_PORT)
	return opts, nil
}

// Who connects to the embedded server, where the configuration names nobody.
const (
	administrator = "forewarm"
	anyone        = "anyone" // without credentials
)

// CredentialFile has the password of the user forewarm, who may do everything on the embedded server that stores in dir.
func CredentialFile(dir string) string { return filepath.Join(dir, "forewarm.password") }

// credential reads the password of who may do everything, or makes one.
func (e *Embedded) credential() (err error) {
	if e.user = e.cfg.User; e.user != "" {
		e.password, err = tlsconfig.ReadSecret("nats.password_file", e.cfg.PasswordFile)
		return err
	}
	e.user = administrator
	path := CredentialFile(e.cfg.Embedded.StoreDir)
	if data, err := os.ReadFile(path); err == nil && len(strings.TrimSpace(string(data))) > 0 {
		e.password = strings.TrimSpace(string(data))
		return nil
	}
	e.password = rand.Text()
	err = os.WriteFile(path, []byte(e.password+"\n"), 0o600)
	if err == nil || errors.Is(err, syscall.ENOSPC) { // on a full disk it is written at a later start
		return nil
	}
	return fmt.Errorf("nats.embedded.store_dir is %q: %w; make it writable", e.cfg.Embedded.StoreDir, err)
}

// permissions let clients without credentials publish telemetry, read what Forewarm publishes, and list streams.
func (c *Config) permissions() *server.Permissions {
	const api = "$JS.API."
	publish := []string{
		c.Prefix + ".telemetry.>", c.Prefix + ".prescale.ack.*",
		api + "INFO", api + "STREAM.NAMES", api + "STREAM.LIST", api + "STREAM.INFO.*",
		api + "CONSUMER.NAMES.*", api + "CONSUMER.LIST.*", api + "CONSUMER.INFO.>",
	}
	for _, stream := range []string{c.Signals(), c.forecasts()} {
		publish = append(publish, "$JS.ACK."+stream+".>", api+"STREAM.MSG.GET."+stream, api+"DIRECT.GET."+stream+".>",
			api+"CONSUMER.CREATE."+stream+".>", api+"CONSUMER.DELETE."+stream+".*", api+"CONSUMER.MSG.NEXT."+stream+".*")
	}
	for _, s := range c.Sources {
		publish = append(publish, s.Subject)
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: []string{c.Prefix + ".>", "_INBOX.>"}},
	}
}

// InProcessConn connects to the server that is there now.
func (e *Embedded) InProcessConn() (net.Conn, error) { return e.server.Load().InProcessConn() }

// URL is where other processes reach the server; "" when it is not on the network.
func (e *Embedded) URL() string {
	s := e.server.Load()
	if s.Addr() == nil {
		return ""
	}
	return s.ClientURL()
}

// Shutdown stops the server and waits until its stores are closed.
func (e *Embedded) Shutdown() {
	s := e.server.Load()
	s.Shutdown()
	s.WaitForShutdown()
}

// serverLog passes the server's log on, and hands over its first fatal error instead of ending the process.
type serverLog struct {
	log    *zap.SugaredLogger
	fatal  chan error
	broken *atomic.Pointer[error]
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debugf(format, v...) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

// Errorf logs errors, but only the first failed write of a message: the server logs each of them, some with the format "%s".
func (l *serverLog) Errorf(format string, v ...any) {
	err := fmt.Errorf(format, v...)
	text := strings.ToLower(err.Error())
	if strings.Contains(text, "failed to store a msg") || strings.Contains(text, "critical write error") {
		if !l.broken.CompareAndSwap(nil, &err) {
			return
		}
	}
	l.log.Error(err)
}

func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Maximum payloads over") || strings.HasPrefix(format, "Plaintext passwords") {
		return // see maxPayload; the passwords are in no file of the server
	}
	l.log.Warnf(format, v...)
}

func (l *serverLog) Fatalf(format string, v ...any) {
	l.log.Errorf(format, v...)
	select {
	case l.fatal <- fmt.Errorf(format, v...):
	default:
	}
}
