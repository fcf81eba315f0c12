package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"testing"
)

// saved is the state of p as it is written.
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

// TestEncodeStopsWhereItCannotWrite: an error of the writer comes back, at whatever part.
func TestEncodeStopsWhereItCannotWrite(t *testing.T) {
	p := New(mixedConfig(t, EventClock))
	apply(p, mixedLog(11, 3), func(*Output) {})
	whole := len(saved(t, p))
	for room := 0; room < whole; room += whole/50 + 1 {
		if err := p.Encode(&narrow{room}); !errors.Is(err, errFull) {
			t.Errorf("with room for %d of %d bytes: %v", room, whole, err)
		}
	}
}

var errFull = errors.New("full")

type narrow struct{ room int }

func (n *narrow) Write(b []byte) (int, error) {
	if n.room -= len(b); n.room < 0 {
		return 0, errFull
	}
	return len(b), nil
}

// FuzzRestore: whatever the bytes, restoring fails or gives a state that is written as it was read.
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
			t.Errorf("restored from %d bytes, and cannot be written: %v", len(b), err)
		}
	})
}
