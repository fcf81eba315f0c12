package pipeline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"testing"
)

// saved is the state of p as it is written.
func saved(t testing.TB, p *Pipeline) []byte {
	t.Helper()
	defer p.Thaw()
	return written(t, p.Freeze())
}

func written(t testing.TB, f *Frozen) []byte {
	t.Helper()
	defer f.Close()
	var b bytes.Buffer
	if err := f.Encode(&b); err != nil {
		t.Error(err)
	}
	return b.Bytes()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// TestFrozenIsWrittenWhileTheFoldGoesOn: of a log in which everything happens, the state that is written on another
// goroutine is the one that was frozen, and the fold comes to what it comes to without.
func TestFrozenIsWrittenWhileTheFoldGoesOn(t *testing.T) {
	for _, clock := range []Clock{WallClock, EventClock} {
		t.Run(string(clock), func(t *testing.T) {
			cfg, log := mixedConfig(t, clock), mixedLog(11, 9)
			p, free := New(cfg), New(cfg)
			for part := range slices.Chunk(log, 151) {
				want, frozen, got := saved(t, p), p.Freeze(), make(chan []byte)
				go func() { got <- written(t, frozen) }()
				apply(p, part, func(*Output) {})
				apply(free, part, func(*Output) {})
				if !bytes.Equal(want, <-got) {
					t.Fatal("what was frozen has changed")
				}
				p.Thaw()
			}
			if !bytes.Equal(saved(t, free), saved(t, p)) {
				t.Error("the final state differs")
			}
		})
	}
}

// TestEncodeStopsWhereItCannotWrite: an error of the writer comes back, at whatever part.
func TestEncodeStopsWhereItCannotWrite(t *testing.T) {
	p := New(mixedConfig(t, EventClock))
	apply(p, mixedLog(11, 3), func(*Output) {})
	whole := len(saved(t, p))
	for room := 0; room < whole; room += whole/50 + 1 {
		f := p.Freeze()
		if err := f.Encode(&narrow{room}); !errors.Is(err, errFull) {
			t.Errorf("with room for %d of %d bytes: %v", room, whole, err)
		}
		f.Close()
		p.Thaw()
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
		if err := q.Freeze().Encode(io.Discard); err != nil {
			t.Errorf("restored from %d bytes, and cannot be written: %v", len(b), err)
		}
	})
}
