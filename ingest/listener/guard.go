package listener

import (
	"crypto/sha256"
	"crypto/subtle"
	"strings"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/forewarm/forewarm/internal/tlsconfig"
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
	token, err := tlsconfig.ReadSecret("listeners."+name+".token_file", e.TokenFile)
	g.token, g.asks = sha256.Sum256([]byte(token)), true
	return g, err
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
