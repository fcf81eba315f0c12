package dynamo

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/internal/tlsconfig"
	"github.com/forewarm/forewarm/server/rpc"
)

// Config lists the planners.
type Config struct {
	Planners []Planner `yaml:"planners"`
}

// Stage is a stage of the planner's pipeline that a plug-in can serve.
type Stage string

// The stages that Forewarm serves.
const (
	Predict Stage = "predict"
	Propose Stage = "propose"
)

// Planner is one planner, and the pool whose workers it scales. Calls do not identify the planner, so each has its own
// address.
type Planner struct {
	Pool      string           `yaml:"pool"`
	Component string           `yaml:"component"` // worker kind of a pool that is not disaggregated: prefill or decode; "" is decode, also for workers that do both
	Stages    []Stage          `yaml:"stages"`    // none means propose
	Listen    string           `yaml:"listen"`    // host:port for the planner's calls
	TLS       tlsconfig.Server `yaml:"tls"`

	Registry    string           `yaml:"registry"`     // host:port of the planner's gateway; "" if the planner's external_plugins has Listen
	RegistryTLS tlsconfig.Client `yaml:"registry_tls"` // all empty is plaintext
	TokenFile   string           `yaml:"token_file"`   // token for the gateway; read for each call
	Endpoint    string           `yaml:"endpoint"`     // grpc://host:port of Listen for the planner; "" is grpc://Listen
	Priority    int              `yaml:"priority"`     // the lowest of a stage has precedence; 0 means 10
	Interval    time.Duration    `yaml:"interval"`     // throughput_adjustment_interval_seconds of the planner; 0 means 1m
}

// maxPlanners bounds the listeners.
const maxPlanners = 64

// Check is nil for a usable configuration; else it names the key, the value, the bound and what to do. It opens no file
// and resolves no address.
func (c Config) Check() error {
	if len(c.Planners) > maxPlanners {
		return fmt.Errorf("planners: %d are more than %d; leave some to another daemon", len(c.Planners), maxPlanners)
	}
	for i := range c.Planners {
		if err := c.Planners[i].check(); err != nil {
			return fmt.Errorf("planners[%d].%w", i, err)
		}
	}
	return nil
}

func (p *Planner) check() error {
	switch {
	case p.Pool == "":
		return fmt.Errorf("pool: %q; name the pool whose workers the planner scales", p.Pool)
	case !slices.Contains([]string{"", componentDecode, componentPrefill}, p.Component):
		return fmt.Errorf("component: %q is unknown; set decode or prefill", p.Component)
	case p.Listen == "":
		return fmt.Errorf("listen: %q; write host:port, such as 127.0.0.1:9466", p.Listen)
	case p.Priority < 0 || p.Priority > 1000:
		return fmt.Errorf("priority: %d is out of 0…1000; set one below that of what it is to precede", p.Priority)
	case p.Interval < 0 || p.Interval > time.Hour:
		return fmt.Errorf("interval: %s is out of 0s…1h; set the planner's throughput_adjustment_interval_seconds", p.Interval)
	case p.Endpoint != "" && !strings.HasPrefix(p.Endpoint, "grpc://"):
		return fmt.Errorf("endpoint: %q is not grpc://host:port; write where the planner reaches listen", p.Endpoint)
	case p.Registry == "" && (p.TokenFile != "" || p.Endpoint != "" || p.RegistryTLS != tlsconfig.Client{}):
		return fmt.Errorf("registry: %q, though keys are set that are for it; name the planner's gateway as host:port, or remove them", p.Registry)
	}
	for _, s := range p.Stages {
		if s != Predict && s != Propose {
			return fmt.Errorf("stages: %q is unknown; set predict, propose, or both", s)
		}
	}
	if _, _, err := net.SplitHostPort(p.Registry); p.Registry != "" && err != nil {
		return fmt.Errorf("registry: %q is not host:port; write that of the planner's gateway", p.Registry)
	}
	if err := p.RegistryTLS.Check(); err != nil {
		return fmt.Errorf("registry_tls.%w", err)
	}
	if err := p.RPC().Check(); err != nil {
		return err
	}
	host, _, _ := net.SplitHostPort(p.Listen)
	if ip := net.ParseIP(host); p.Registry != "" && p.Endpoint == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("endpoint: %q, and listen is every address of this machine; write grpc://host:port by which the planner reaches it", p.Endpoint)
	}
	return nil
}

// RPC is the listener of the planner.
func (p *Planner) RPC() rpc.Config {
	return rpc.Config{Listen: p.Listen, TLS: p.TLS, MaxBytes: 10 << 20} // the planner's own bound on messages
}

func (p *Planner) stages() []Stage {
	if len(p.Stages) == 0 {
		return []Stage{Propose}
	}
	return p.Stages
}

// PluginID is the name of a registered stage.
func (p *Planner) PluginID(s Stage) string { return "forewarm-" + p.Pool + "-" + string(s) }
