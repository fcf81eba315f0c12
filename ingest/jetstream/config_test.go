package jetstream

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/forewarm/forewarm/internal/testenv"
)

func TestCheck(t *testing.T) {
	c := DefaultConfig()
	if err := c.Check(); err != nil {
		t.Errorf("default: %v", err)
	}
	for key, change := range map[string]func(*Config){
		"user":                          func(c *Config) { c.User = "u" },
		"creds_file, nkey_file or user": func(c *Config) { c.CredsFile, c.NkeyFile = "c", "n" },
		"tls.cert_file":                 func(c *Config) { c.TLS.CertFile = "c" },
		"embedded.listen":               func(c *Config) { c.Embedded.Listen = "4222" },
		"stream.name":                   func(c *Config) { c.Stream.Name = "a.b" },
		"stream.max_age":                func(c *Config) { c.Stream.MaxAge = time.Second },
		"stream.max_bytes":              func(c *Config) { c.Stream.MaxBytes = 1 },
		"stream.replicas":               func(c *Config) { c.Stream.Replicas = 3 },
		"prefix":                        func(c *Config) { c.Prefix = "a..b" },
	} {
		c := DefaultConfig()
		change(&c)
		wantError(t, c.Check(), key+" is ")
	}
	c.URL, c.Stream.Replicas, c.Prefix, c.Embedded.Listen = "nats://n:4222", 3, "acme.forewarm", ""
	if err := c.Check(); err != nil {
		t.Errorf("cluster: %v", err)
	}
}

func TestPrefix(t *testing.T) {
	for prefix, want := range map[string]bool{"a": true, "a.b": true, "": false, ".a": false, "a.": false, "a b": false, "*": false, "a.>": false, "$JS": false} {
		c := DefaultConfig()
		c.Prefix = prefix
		if got := c.Check() == nil; got != want {
			t.Errorf("%q: got %v, want %v", prefix, got, want)
		}
	}
}

// TestEmbeddedErrors: an address or directory that cannot be used is named, with the remedy.
func TestEmbeddedErrors(t *testing.T) {
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()}
	first := start(t, c)

	second := c
	second.Embedded.Listen = first.server.Load().Addr().String()
	second.Embedded.StoreDir = t.TempDir()
	_, err := StartEmbedded(testContext(t), second, nop)
	wantError(t, err, "nats.embedded", second.Embedded.Listen, "choose another")

	file := testenv.WriteFile(t, filepath.Join(t.TempDir(), "file"))
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		c.Embedded.StoreDir = dir
		_, err := StartEmbedded(testContext(t), c, nop)
		wantError(t, err, "nats.embedded.store_dir", "name a directory")
	}
}

func TestEmbeddedRequiresPassword(t *testing.T) {
	password := testenv.WriteFile(t, filepath.Join(t.TempDir(), "password"), "secret")
	c := DefaultConfig()
	c.Embedded = EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir()}
	c.User, c.PasswordFile = "u", password
	e := start(t, c)
	connect(t, c, e)
	c.URL = e.URL()
	connect(t, c, nil)

	c.User, c.PasswordFile = "", ""
	_, err := Connect(c, nil)
	wantError(t, err, "nats.url", "Authorization")
}

// TestConnectErrors: the error names the key, and has xxxxx in place of secrets of the URL.
func TestConnectErrors(t *testing.T) {
	empty := testenv.WriteFile(t, filepath.Join(t.TempDir(), "empty"))
	for name, tc := range map[string]struct {
		change func(*Config)
		want   []string
	}{
		"unreachable":    {func(c *Config) {}, []string{`nats.url is "nats://xxxxx@127.0.0.1:1"`, "no servers available", "correct nats.url"}},
		"token in url":   {func(c *Config) { c.URL = "nats://hidden@127.0.0.1:1" }, []string{`nats.url is "nats://xxxxx@127.0.0.1:1"`}},
		"no scheme":      {func(c *Config) { c.URL = "u:hidden@127.0.0.1:1" }, []string{`nats.url is "xxxxx@127.0.0.1:1"`, "no servers available"}},
		"no url":         {func(c *Config) { c.URL = "nats://u:hidden/%zz@127.0.0.1:1" }, []string{`nats.url is "nats://xxxxx@127.0.0.1:1"`, "not a valid URL"}},
		"no port":        {func(c *Config) { c.URL = "nats://127.0.0.1:1,u:hidden/@127.0.0.1" }, []string{`nats.url is "nats://127.0.0.1:1,xxxxx@127.0.0.1"`, "not a valid URL"}},
		"no password":    {func(c *Config) { c.User, c.PasswordFile = "u", "/nowhere" }, []string{`nats.password_file is "/nowhere"`, "no such file"}},
		"empty password": {func(c *Config) { c.User, c.PasswordFile = "u", empty }, []string{"nats.password_file", "empty"}},
		"no nkey":        {func(c *Config) { c.NkeyFile = empty }, []string{"nats.nkey_file", "nkey seed"}},
		"no CA":          {func(c *Config) { c.TLS.CAFile = "/nowhere" }, []string{"/nowhere"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.URL = "nats://u:hidden@127.0.0.1:1"
			tc.change(&c)
			conn, err := Connect(c, nil, nats.Timeout(time.Second))
			if err == nil {
				conn.Close()
			}
			if wantError(t, err, tc.want...); strings.Contains(err.Error(), "hidden") {
				t.Errorf("the error has a secret: %v", err)
			}
		})
	}
}
