package jetstream

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/forewarm/forewarm/internal/tlsconfig"
)

// Config says which NATS to use and what to keep there. With a URL the daemon is a client of that server; without one
// it runs a server of its own, in its own process.
type Config struct {
	URL string `yaml:"url"` // nats://host:4222, several separated by commas; "" runs an embedded server

	// One way to authenticate, or none. Secrets are read from files.
	CredsFile    string `yaml:"creds_file"`
	NkeyFile     string `yaml:"nkey_file"`
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"`

	TLS      tlsconfig.Client `yaml:"tls"` // all empty means the URL alone decides
	Embedded EmbeddedConfig   `yaml:"embedded"`
	Stream   StreamConfig     `yaml:"stream"`
	Kept     KeptConfig       `yaml:"decisions"`
	Prefix   string           `yaml:"prefix"`  // first tokens of every subject, and of the names of streams
	Sources  []Source         `yaml:"sources"` // subjects of others that carry telemetry too
}

// EmbeddedConfig is the server that runs when no URL is set.
type EmbeddedConfig struct {
	Listen   string `yaml:"listen"`    // host:port for producers; "none" serves this process only
	StoreDir string `yaml:"store_dir"` // "" is nats/ in the storage directory
	// Sync bounds what a power cut can lose: always syncs each message before it is acknowledged; a time such as 10s is
	// how often what was acknowledged is synced.
	Sync string `yaml:"sync"`
}

// usualSync is what an unset Sync means.
const usualSync = "10s"

// SyncAlways is the Sync that loses nothing.
const SyncAlways = "always"

// interval is how often the server syncs its files.
func (e *EmbeddedConfig) interval() (every time.Duration, err error) {
	if e.Sync == SyncAlways {
		return time.Minute, nil // of files that are not written message by message
	}
	every, err = time.ParseDuration(cmp.Or(e.Sync, usualSync))
	if err != nil || every < time.Second || every > 10*time.Minute {
		return 0, fmt.Errorf("embedded.sync is %q: it must be %s, or a time from 1s to 10m, which is how much a power cut can take", e.Sync, SyncAlways)
	}
	return every, nil
}

// StreamConfig is the telemetry stream, when Forewarm makes it. A stream that is there already is used as it is.
type StreamConfig struct {
	Name     string        `yaml:"name"` // "" is TELEMETRY after the prefix
	MaxAge   time.Duration `yaml:"max_age"`
	MaxBytes int64         `yaml:"max_bytes"`
	Replicas int           `yaml:"replicas"` // copies of every stream in a NATS cluster
}

// KeptConfig is how much of decisions and notices is kept; the oldest go first.
type KeptConfig struct {
	MaxAge   time.Duration `yaml:"max_age"`
	MaxBytes int64         `yaml:"max_bytes"`
}

// listenNone keeps the embedded server off the network.
const listenNone = "none"

// DefaultConfig is what an unset configuration means.
func DefaultConfig() Config {
	return Config{
		Embedded: EmbeddedConfig{Listen: "127.0.0.1:4222", Sync: usualSync},
		Stream:   StreamConfig{MaxAge: 48 * time.Hour, MaxBytes: 4 << 30, Replicas: 1},
		Kept:     KeptConfig{MaxAge: 30 * 24 * time.Hour, MaxBytes: 1 << 30},
		Prefix:   "forewarm",
	}
}

// Check names the first key that is out of bounds, its value, the bound and what to do.
func (c *Config) Check() error {
	if err := c.checkAuth(); err != nil {
		return err
	}
	if err := c.TLS.Check(); err != nil {
		return fmt.Errorf("tls.%w", err)
	}
	if c.URL == "" && c.Embedded.Listen != listenNone {
		if _, _, err := net.SplitHostPort(c.Embedded.Listen); err != nil {
			return fmt.Errorf("embedded.listen is %q: it must be host:port, or none", c.Embedded.Listen)
		}
	}
	if _, err := c.Embedded.interval(); err != nil {
		return err
	}
	switch s := c.Stream; {
	case strings.ContainsAny(s.Name, " \t\r\n.*>/\\"):
		return fmt.Errorf("stream.name is %q: it must be a word without spaces and any of . * > / \\", s.Name)
	case s.MaxAge < minAge || s.MaxAge > maxAge:
		return fmt.Errorf("stream.max_age is %s: it must be %s to %s; it has to outlast an outage of the daemon", s.MaxAge, minAge, maxAge)
	case s.MaxBytes < minBytes:
		return fmt.Errorf("stream.max_bytes is %d: it must be at least %d (64 MiB)", s.MaxBytes, minBytes)
	case c.Kept.MaxAge < minKept:
		return fmt.Errorf("decisions.max_age is %s: it must be at least %s, and more than a week for weekly reports", c.Kept.MaxAge, minKept)
	case c.Kept.MaxBytes < minBytes:
		return fmt.Errorf("decisions.max_bytes is %d: it must be at least %d (64 MiB)", c.Kept.MaxBytes, minBytes)
	case s.Replicas < 1 || s.Replicas > 5:
		return fmt.Errorf("stream.replicas is %d: it must be 1 to 5, and more than 1 only on a NATS cluster", s.Replicas)
	case s.Replicas > 1 && c.URL == "":
		return fmt.Errorf("stream.replicas is %d: it must be 1 on the embedded server; set url to use a NATS cluster", s.Replicas)
	}
	if !isSubject(c.Prefix) || strings.ContainsAny(c.Prefix, "*>") {
		return fmt.Errorf("prefix is %q: it must be words joined by dots, without spaces, * and >", c.Prefix)
	}
	return c.checkSources()
}

const (
	minAge   = 10 * time.Minute
	maxAge   = 366 * 24 * time.Hour
	minBytes = 64 << 20
	minKept  = 6 * time.Hour
)

func (c *Config) checkAuth() error {
	if c.CredsFile != "" && c.NkeyFile != "" || c.User != "" && c.CredsFile+c.NkeyFile != "" {
		return errors.New("creds_file, nkey_file or user is set beside another: there is one way to authenticate; leave the others out")
	}
	if (c.User == "") != (c.PasswordFile == "") {
		return fmt.Errorf("user is %q and password_file is %q: set both, or neither", c.User, c.PasswordFile)
	}
	return nil
}
