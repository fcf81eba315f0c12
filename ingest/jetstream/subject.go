package jetstream

import (
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// isPrefix reports whether prefix is one or more tokens of a subject, none of them a wildcard.
func isPrefix(prefix string) bool { return isSubject(prefix) && !strings.ContainsAny(prefix, "*>") }

// isSubject reports whether subject is one that clients may publish to, or a pattern of such with the wildcards * and
// >.
func isSubject(subject string) bool {
	return server.IsValidSubject(subject) && !strings.HasPrefix(subject, "$")
}
