package listener

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// guard decides which requests are let in. It is safe for concurrent use.
type guard struct {
	token [sha256.Size]byte // of the token
	asks  bool              // for the token
	rate  *rate.Limiter
	slots *semaphore.Weighted // a request takes one while it is stored
	// memory is for bodies that are read, perhaps from slow senders, by their length.
	memory *semaphore.Weighted
}

func newGuard(name string, e *Endpoint) (*guard, error) {
	g := &guard{
		rate:   rate.NewLimiter(rate.Limit(e.RequestsPerS), max(1, int(e.RequestsPerS))),
		slots:  semaphore.NewWeighted(int64(e.Concurrent)),
		memory: semaphore.NewWeighted(int64(e.Concurrent) * int64(e.MaxBytes)),
	}
	if e.TokenFile == "" {
		return g, nil
	}
	key := "listeners." + name + ".token_file"
	data, err := os.ReadFile(e.TokenFile)
	if err != nil {
		return nil, fmt.Errorf("%s is %q: %w; name a file that the daemon may read", key, e.TokenFile, err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return nil, fmt.Errorf("%s is %q: the file is empty; write the token into it", key, e.TokenFile)
	}
	g.token, g.asks = sha256.Sum256([]byte(token)), true
	return g, nil
}

// admits reports whether the value of an Authorization header holds the token. It takes as long for every wrong one.
func (g *guard) admits(authorization string) bool {
	if !g.asks {
		return true
	}
	scheme, token, _ := strings.Cut(authorization, " ")
	sum := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(sum[:], g.token[:]) == 1
}
