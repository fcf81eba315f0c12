package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
)

// maxPayload is the largest message the embedded server takes: above what decoders accept, so that a message that is too
// large is refused and counted by its reason, rather than by the server without one.
const maxPayload = 16 << 20

// Producers that publish without waiting for the stream's answer are not slowed down by it: what it has not stored yet waits
// in memory, and is dropped beyond these bounds. The server's own bound on messages would let go of those of a usual size
// after 2 MiB.
const (
	bufferedMessages = 1 << 20
	bufferedBytes    = 128 << 20
)

// Embedded is a NATS server with JetStream inside this process.
type Embedded struct {
	server *server.Server
}

// StartEmbedded starts a server as c.Embedded says and waits until it serves. With c.User set, it asks clients for that
// user and password. Errors name the key to mend.
func StartEmbedded(ctx context.Context, c Config, log *zap.Logger) (*Embedded, error) {
	opts, err := c.serverOptions()
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("nats.embedded: %w", err)
	}
	fatal := make(chan error, 1)
	s.SetLoggerV2(&serverLog{log.Named("nats").Sugar(), fatal}, false, false, false)
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
		return nil, fmt.Errorf("nats.embedded (listen %s, store_dir %s): %w; stop what uses the port or the directory, or choose another",
			c.Embedded.Listen, c.Embedded.StoreDir, err)
	}
	return &Embedded{s}, nil
}

// readyPoll is how often a starting server is asked whether it failed; recovering a large store takes a while.
const readyPoll = 100 * time.Millisecond

func (c *Config) serverOptions() (*server.Options, error) {
	dir := c.Embedded.StoreDir
	if err := checkWritable(dir); err != nil {
		return nil, fmt.Errorf("nats.embedded.store_dir is %q: %w; name a directory that the daemon may write to", dir, err)
	}
	opts := &server.Options{
		ServerName: "forewarm", JetStream: true, StoreDir: dir, MaxPayload: maxPayload,
		StreamMaxBufferedMsgs: bufferedMessages, StreamMaxBufferedSize: bufferedBytes,
		NoSigs: true, DisableJetStreamBanner: true, DontListen: c.Embedded.Listen == listenNone,
	}
	if c.User != "" {
		password, err := readSecret("nats.password_file", c.PasswordFile)
		if err != nil {
			return nil, err
		}
		opts.Username, opts.Password = c.User, password
	}
	if opts.DontListen {
		return opts, nil
	}
	host, port, err := net.SplitHostPort(c.Embedded.Listen)
	if err == nil {
		opts.Host = host
		opts.Port, err = strconv.Atoi(port)
	}
	if err != nil {
		return nil, fmt.Errorf("nats.embedded.listen is %q: it must be host:port, or none", c.Embedded.Listen)
	}
	if opts.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	return opts, nil
}

func checkWritable(dir string) error {
	if dir == "" {
		return errors.New("no directory")
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// URL is where other processes reach the server; "" when it is not on the network.
func (e *Embedded) URL() string {
	if e.server.Addr() == nil {
		return ""
	}
	return e.server.ClientURL()
}

// Shutdown stops the server and waits until its stores are closed.
func (e *Embedded) Shutdown() {
	e.server.Shutdown()
	e.server.WaitForShutdown()
}

// serverLog passes the server's log on, and hands over its first fatal error instead of ending the process.
type serverLog struct {
	log   *zap.SugaredLogger
	fatal chan error
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debugf(format, v...) }
func (l *serverLog) Errorf(format string, v ...any)  { l.log.Errorf(format, v...) }
func (l *serverLog) Debugf(string, ...any)           {}
func (l *serverLog) Tracef(string, ...any)           {}

func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Maximum payloads over") {
		return // maxPayload says why they are let in
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
