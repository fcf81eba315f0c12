package jetstream

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/forewarm/forewarm/ingest/codec"
)

// Source is a subject of other producers. The telemetry stream takes it in, or a [Relay] if messages may hold prompts.
type Source struct {
	Subject string `yaml:"subject"` // outside Prefix; * and > are allowed
	Format  string `yaml:"format"`  // of messages without a content type: one of codec.Formats
	Pool    string `yaml:"pool"`    // of records that name none; "" leaves it to them
	Class   string `yaml:"class"`
}

// maxSources bounds the sources of one stream: each is tried for each message that is not Forewarm's own.
const maxSources = 64

func (c *Config) checkSources() error {
	if len(c.Sources) > maxSources {
		return fmt.Errorf("sources is %d long: it must be at most %d; join subjects by wildcards", len(c.Sources), maxSources)
	}
	for i, s := range c.Sources {
		key := fmt.Sprintf("sources[%d]", i)
		switch {
		case !isSubject(s.Subject):
			return fmt.Errorf("%s.subject is %q: it must be words joined by dots, any of them *, the last one perhaps >", key, s.Subject)
		case !slices.Contains(codec.Formats(), s.Format):
			return fmt.Errorf("%s.format is %q: it must be one of %s", key, s.Format, strings.Join(codec.Formats(), ", "))
		}
		for _, area := range [...]string{"telemetry.>", "prescale.>", "forecast.>", "alert.>", "decision.>", "notice.>", "deadletter"} {
			if own := c.Prefix + "." + area; server.SubjectsCollide(s.Subject, own) {
				return fmt.Errorf("%s.subject is %q: it must share no subject with %s, which is Forewarm's own; what is published there says its format in the header Content-Type",
					key, s.Subject, own)
			}
		}
		for j, other := range c.Sources[:i] {
			if server.SubjectsCollide(s.Subject, other.Subject) {
				return fmt.Errorf("%s.subject is %q: it must share no subject with sources[%d], %q; a message has one format",
					key, s.Subject, j, other.Subject)
			}
		}
	}
	return nil
}

// isSubject reports whether clients may publish to a subject, or to those that a pattern with * and > stands for.
func isSubject(subject string) bool {
	return server.IsValidSubject(subject) && !strings.HasPrefix(subject, "$")
}

// isRelayed reports whether the telemetry stream does not take in the source as it is, see [Config.Relayed].
func (s *Source) isRelayed() bool { return codec.HoldsPrompts(s.about().ContentType) }

func (s *Source) about() codec.Meta {
	contentType, _ := codec.ContentTypeOf(s.Format)
	return codec.Meta{Kind: codec.KindRequest, ContentType: contentType, Pool: s.Pool, Class: s.Class}
}
