package jetstream

import (
	"fmt"
	"slices"
	"strings"
)

// Rights are the subjects that a NATS user may publish and subscribe to; * and > are allowed.
type Rights struct{ Publish, Subscribe []string }

const (
	apiPrefix = "$JS.API."
	inboxes   = "_INBOX.>"
)

// DaemonRights are the rights that a daemon needs, and no more.
func (c *Config) DaemonRights() Rights {
	objects, values := objectStream+c.State(), valueStream+c.deliveries()
	publish := []string{
		c.Prefix + ".telemetry.>", c.Prefix + ".prescale.*", c.Prefix + ".alert.*", c.Prefix + ".forecast.>", c.Prefix + ".deadletter",
		c.Prefix + ".decision.*", c.Prefix + ".notice.>",
		"$O." + c.State() + ".>", "$KV." + c.deliveries() + ".>",
		apiPrefix + "INFO", apiPrefix + "STREAM.NAMES",
	}
	subscribe := []string{inboxes}
	readers := []string{c.Telemetry(), c.Decisions(), objects}
	for _, s := range c.Relayed(nil) {
		subscribe = append(subscribe, s.Subject)
	}
	if len(c.Relayed(nil)) > 0 {
		publish = append(publish, inboxes) // of publishers that wait for an acknowledgement
	}
	var streams []string
	for _, s := range c.streams() {
		streams = append(streams, s.Name)
	}
	for _, stream := range append(streams, c.buckets()...) {
		publish = append(publish, apiPrefix+"STREAM.INFO."+stream, apiPrefix+"STREAM.CREATE."+stream, apiPrefix+"STREAM.UPDATE."+stream)
	}
	for _, stream := range readers {
		publish = append(publish, readRights(stream)...)
	}
	publish = append(publish, "$JS.ACK."+c.Decisions()+".>", apiPrefix+"STREAM.MSG.GET."+c.Decisions(), apiPrefix+"STREAM.PURGE."+objects,
		apiPrefix+"DIRECT.GET."+objects+".>", apiPrefix+"DIRECT.GET."+values+".>")
	return Rights{publish, subscribe}
}

// readRights are those to publish for a consumer on a stream.
func readRights(stream string) []string {
	return []string{
		apiPrefix + "CONSUMER.CREATE." + stream + ".>", apiPrefix + "CONSUMER.INFO." + stream + ".*",
		apiPrefix + "CONSUMER.DELETE." + stream + ".*", apiPrefix + "CONSUMER.MSG.NEXT." + stream + ".*",
	}
}

// ProducerRights are those of who sends telemetry and answers pre-scale events.
func (c *Config) ProducerRights() Rights {
	r := Rights{[]string{c.Prefix + ".telemetry.request.>", c.Prefix + ".telemetry.replica.>", c.Prefix + ".telemetry.watermark.*"}, []string{inboxes}}
	for _, s := range c.Sources {
		r.Publish = append(r.Publish, s.Subject)
	}
	return r
}

// ConsumerRights are those of who reads pre-scale events, alerts and forecasts, live or from their streams, and
// acknowledges them.
func (c *Config) ConsumerRights() Rights {
	r := Rights{[]string{c.Prefix + ".prescale.ack.*", apiPrefix + "STREAM.NAMES"}, []string{inboxes, c.Prefix + ".prescale.*", c.Prefix + ".alert.*", c.Prefix + ".forecast.>"}}
	for _, stream := range []string{c.Signals(), c.forecasts()} {
		r.Publish = append(append(r.Publish, readRights(stream)...),
			apiPrefix+"STREAM.INFO."+stream, apiPrefix+"STREAM.MSG.GET."+stream, apiPrefix+"DIRECT.GET."+stream+".>", "$JS.ACK."+stream+".>")
	}
	return r
}

// Permissions is the users part of a nats-server configuration. Daemons, producers and consumers have a user each, with
// the least rights.
func (c *Config) Permissions() string {
	var b strings.Builder
	b.WriteString("authorization {\n  users = [\n")
	list := func(key string, subjects []string) {
		fmt.Fprintf(&b, "        %s: {allow: [\n", key)
		slices.Sort(subjects)
		for _, s := range subjects {
			fmt.Fprintf(&b, "          %q\n", s)
		}
		b.WriteString("        ]}\n")
	}
	user := func(name string, has Rights) {
		fmt.Fprintf(&b, "    {\n      user: %s\n      password: $%s_PASSWORD # from the environment of nats-server\n      permissions: {\n", name, strings.ToUpper(name))
		list("publish", has.Publish)
		list("subscribe", has.Subscribe)
		b.WriteString("      }\n    }\n")
	}
	user("forewarm", c.DaemonRights())
	user("producer", c.ProducerRights())
	user("consumer", c.ConsumerRights())
	b.WriteString("  ]\n}\n")
	return b.String()
}
