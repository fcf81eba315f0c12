package sink

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// signer is one key of a webhook, by the Standard Webhooks specification: symmetric (whsec_, HMAC-SHA256, signature v1) or
// asymmetric (whsk_, ed25519, signature v1a).
type signer struct {
	secret  []byte
	private ed25519.PrivateKey
}

const (
	maxKeys              = 8      // that sign at once, while keys are exchanged
	leastKey, longestKey = 24, 64 // bytes of a symmetric key
)

// parseKeys reads keys, one a line; empty lines and those that begin with # do not count. Errors never show a key.
func parseKeys(text string) (keys []signer, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if len(keys) == maxKeys {
			return nil, fmt.Errorf("line %d: more than %d keys; remove those that no consumer goes by", number, maxKeys)
		}
		k, err := parseKey(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, errors.New("no key; write one a line, such as whsec_ and 32 random bytes in base64")
	}
	return keys, nil
}

func parseKey(text string) (signer, error) {
	if rest, ok := strings.CutPrefix(text, "whsk_"); ok {
		key, err := base64.StdEncoding.DecodeString(rest)
		switch {
		case err == nil && len(key) == ed25519.PrivateKeySize:
			return signer{private: key}, nil
		case err == nil && len(key) == ed25519.SeedSize:
			return signer{private: ed25519.NewKeyFromSeed(key)}, nil
		}
		return signer{}, fmt.Errorf("a whsk_ key is %d bytes in base64, or its seed of %d", ed25519.PrivateKeySize, ed25519.SeedSize)
	}
	rest, ok := strings.CutPrefix(text, "whsec_")
	if !ok {
		return signer{}, errors.New("a key begins with whsec_ (HMAC-SHA256) or whsk_ (ed25519)")
	}
	key, err := base64.StdEncoding.DecodeString(rest)
	if err != nil || len(key) < leastKey || len(key) > longestKey {
		return signer{}, fmt.Errorf("a whsec_ key is %d to %d random bytes in base64", leastKey, longestKey)
	}
	return signer{secret: key}, nil
}

// sign is the webhook-signature header: one signature a key over id.timestamp.body, separated by spaces. id has no full
// stop in it.
func sign(keys []signer, id string, at time.Time, body []byte) string {
	content := append([]byte(id+"."+strconv.FormatInt(at.Unix(), 10)+"."), body...)
	var out []string
	for _, k := range keys {
		if k.private != nil {
			out = append(out, "v1a,"+base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, content)))
			continue
		}
		mac := hmac.New(sha256.New, k.secret)
		mac.Write(content)
		out = append(out, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(out, " ")
}
