package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"
)

// saved is the snapshot of p.
func saved(t testing.TB, p *Pipeline) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := p.Encode(&b); err != nil {
		t.Error(err)
	}
	return b.Bytes()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// TestEncodeToFullWriter: Encode returns the writer's error, wherever it occurs.
func TestEncodeToFullWriter(t *testing.T) {
	p := New(mixedConfig(t, EventClock))
	apply(p, mixedLog(11, 3), func(*Output) {})
	whole := len(saved(t, p))
	for room := 0; room < whole; room += whole/50 + 1 {
		if err := p.Encode(&boundedWriter{room}); !errors.Is(err, errFull) {
			t.Errorf("with room for %d of %d bytes: %v", room, whole, err)
		}
	}
}

var errFull = errors.New("full")

type boundedWriter struct{ room int }

func (n *boundedWriter) Write(b []byte) (int, error) {
	if n.room -= len(b); n.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// FuzzRestore: for all bytes, Restore fails or returns a state that can be encoded.
func FuzzRestore(f *testing.F) {
	p := New(mixedConfig(f, EventClock))
	apply(p, mixedLog(11, 3), func(*Output) {})
	good := saved(f, p)
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		q, err := Restore(mixedConfig(t, EventClock), bytes.NewReader(b))
		if err != nil {
			return
		}
		if err := q.Encode(io.Discard); err != nil {
			t.Errorf("restored from %d bytes, and cannot be encoded: %v", len(b), err)
		}
	})
}
