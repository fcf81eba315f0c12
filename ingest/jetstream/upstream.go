package jetstream

// Upstream is a NATS server that an edge aggregator publishes to; its keys are those of [Config].
type Upstream struct {
	URL          string `yaml:"url"`
	CredsFile    string `yaml:"creds_file"`
	NkeyFile     string `yaml:"nkey_file"`
	User         string `yaml:"user"`
	PasswordFile string `yaml:"password_file"`
	TokenFile    string `yaml:"token_file"`
	TLS          TLS    `yaml:"tls"`
	Prefix       string `yaml:"prefix"` // that of the telemetry subjects there
}

// DefaultUpstream has no URL.
func DefaultUpstream() Upstream { return Upstream{Prefix: DefaultConfig().Prefix} }

// Config is how to connect to it, as name.
func (u Upstream) Config(name string) Config {
	c := DefaultConfig()
	c.URL, c.Name, c.Prefix, c.TLS = u.URL, name, u.Prefix, u.TLS
	c.CredsFile, c.NkeyFile, c.User, c.PasswordFile, c.TokenFile = u.CredsFile, u.NkeyFile, u.User, u.PasswordFile, u.TokenFile
	return c
}

// Validate names the first key that is out of bounds.
func (u Upstream) Validate() error {
	c := u.Config(DefaultConfig().Name)
	return c.Validate()
}
