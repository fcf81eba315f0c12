package listener

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"
)

// guard decides which requests are let in. It is safe for concurrent use.
type guard struct {
	token [sha256.Size]byte // of the token
	asks  bool              // for the token
	rate  *rate.Limiter
	slots *semaphore.Weighted // a request takes one while it is stored
	// memory is for bodies that are being read, perhaps from slow senders.
	memory *budget
}

func newGuard(name string, e *Endpoint) (*guard, error) {
	g := &guard{
		rate:   rate.NewLimiter(rate.Limit(e.RequestsPerS), max(1, int(e.RequestsPerS))),
		slots:  semaphore.NewWeighted(int64(e.Concurrent)),
		memory: &budget{body: e.MaxBytes + 1, left: e.Concurrent * (e.MaxBytes + 1), most: max(e.Concurrent/2, 1) * (e.MaxBytes + 1), held: map[string]int{}},
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

// budget bounds the bodies that are held at once, by what has come of them: one that is not finished holds little. A client
// address has half of it at most.
type budget struct {
	body int // the longest, and a byte

	mu   sync.Mutex
	left int
	most int            // for an address
	held map[string]int // by address, of which there are no more than connections
}

// share is what one request holds.
type share struct {
	*budget
	client string
	bytes  int
}

// firstBytes is what a body takes to begin with.
const firstBytes = 16 << 10

var errNoMemory = errors.New("too much is held at once")

func (b *budget) of(client string) *share { return &share{budget: b, client: client} }

// read reads a body to its end, or fails with errNoMemory.
func (s *share) read(r io.Reader) ([]byte, error) {
	var body []byte
	for {
		if len(body) == cap(body) {
			more := max(1, min(max(firstBytes, cap(body)), s.body-cap(body)))
			if !s.take(more) {
				return body, errNoMemory
			}
			body = append(make([]byte, 0, cap(body)+more), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, nil
		}
		if err != nil {
			return body, err
		}
	}
}

func (s *share) take(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left < n || s.held[s.client]+n > s.most {
		return false
	}
	s.left -= n
	s.held[s.client] += n
	s.bytes += n
	return true
}

func (s *share) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left += s.bytes
	if s.held[s.client] -= s.bytes; s.held[s.client] <= 0 {
		delete(s.held, s.client)
	}
}
