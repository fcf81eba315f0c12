package dynamo

import (
	"fmt"
	"slices"

	"github.com/forewarm/forewarm/internal/tlsconfig"
	"github.com/forewarm/forewarm/server/rpc"
)

// Config lists the planners.
type Config struct {
	Planners []Planner `yaml:"planners"`
}

// Planner is one planner, and the pool whose workers it scales. Calls do not identify the planner, so each has its own
// address.
type Planner struct {
	Pool      string           `yaml:"pool"`
	Component string           `yaml:"component"` // kind of the workers, prefill or decode, if the pool is not disaggregated; "" means decode, which includes workers that do both
	Listen    string           `yaml:"listen"`    // host:port for the planner's calls
	TLS       tlsconfig.Server `yaml:"tls"`
}

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
	}
	return p.RPC().Check()
}

// RPC is the listener of the planner.
func (p *Planner) RPC() rpc.Config {
	return rpc.Config{Listen: p.Listen, TLS: p.TLS, MaxBytes: 10 << 20} // the planner's own bound on messages
}
