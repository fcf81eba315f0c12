package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Rights are the subjects that a NATS user may publish and subscribe to; * and > are allowed.
type Rights struct{ Publish, Subscribe []string }

const (
	apiPrefix = "$JS.API."
	inboxes   = "_INBOX.>"
	// userInfo is the subject where a server answers with the rights of the asking user.
	userInfo = "$SYS.REQ.USER.INFO"
)

// DaemonRights are the rights that a daemon needs, and no more.
func (c *Config) DaemonRights() Rights {
	objects, values := objectStream+c.State(), valueStream+c.deliveries()
	publish := []string{
		userInfo,
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

// CheckRights fails where the user of a connection lacks a right that the daemon needs, and names the subjects. A
// server that does not say what rights there are is no error.
func (c *Config) CheckRights(ctx context.Context, conn *nats.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var answer struct {
		Data server.UserInfo `json:"data"`
	}
	m, err := conn.RequestWithContext(ctx, userInfo, nil)
	if err = Denied(conn, err); errors.Is(err, nats.ErrPermissionViolation) {
		return fmt.Errorf("what this user may do cannot be seen on %s: %w; forewarm nats-config prints all that the daemon needs", userInfo, err)
	}
	if err != nil || json.Unmarshal(m.Data, &answer) != nil || answer.Data.Permissions == nil { // it does not say, or there are no limits
		return nil
	}
	have, need := answer.Data.Permissions, c.DaemonRights()
	var lacks []string
	lack := func(verb string, have *server.SubjectPermission, need []string) {
		missing := slices.DeleteFunc(need, func(s string) bool { return have == nil || allows(have.Allow, have.Deny, s) })
		if len(missing) > 0 {
			lacks = append(lacks, verb+strings.Join(missing, ", "))
		}
	}
	lack("publish to ", have.Publish, need.Publish)
	lack("subscribe to ", have.Subscribe, need.Subscribe)
	if len(lacks) == 0 {
		return nil
	}
	return fmt.Errorf("the NATS user of this connection may not %s: allow it in the server's configuration; forewarm nats-config prints all that the daemon needs", strings.Join(lacks, ", nor "))
}

// allows reports whether the lists permit all subjects of a pattern. An empty list of allowed subjects permits all.
func allows(allow, deny []string, subject string) bool {
	if slices.ContainsFunc(deny, func(d string) bool { d, _, _ = strings.Cut(d, " "); return server.SubjectsCollide(d, subject) }) {
		return false
	}
	return len(allow) == 0 || slices.ContainsFunc(allow, func(a string) bool { a, _, _ = strings.Cut(a, " "); return server.SubjectMatchesFilter(subject, a) })
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
