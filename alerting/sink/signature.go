package sink

import (
	"errors"
	"fmt"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	maxKeys   = 8  // at once, for key rotation
	minKeyLen = 38 // characters: whsec_ and 24 bytes in base64
)

// sign is the webhook-signature header of the Standard Webhooks specification: one signature (v1, HMAC-SHA256) per key.
// text has one key per line; empty lines and lines that begin with # are ignored. id has no full stop. Errors never
// show a key.
func sign(text, id string, at time.Time, body []byte) (string, error) {
	var out []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if len(out) == maxKeys {
			return "", fmt.Errorf("line %d: more than %d keys; remove those that no consumer goes by", number, maxKeys)
		}
		key, err := standardwebhooks.NewWebhook(line)
		if err != nil || len(line) < minKeyLen || !strings.HasPrefix(line, "whsec_") {
			return "", fmt.Errorf("line %d: a key is whsec_ and 24 or more random bytes in base64", number)
		}
		signature, err := key.Sign(id, at, body)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", number, err)
		}
		out = append(out, signature)
	}
	if len(out) == 0 {
		return "", errors.New("no key; write one a line, such as whsec_ and 32 random bytes in base64")
	}
	return strings.Join(out, " "), nil
}
