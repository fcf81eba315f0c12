package features

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/fxamacker/cbor/v2"
)

// rest is an Aggregator at rest, with all of its parts.
type rest struct {
	State
	Classes  []ClassSnapshot
	Arrivals ArrivalSnapshot
}

// restOf is the state of a as it comes back from its bytes.
func restOf(t testing.TB, a *Aggregator) (s rest) {
	t.Helper()
	dec := cbor.NewDecoder(bytes.NewReader(bytesOf(t, a)))
	next := func(part any) {
		if err := dec.Decode(part); err != nil {
			t.Fatal(err)
		}
	}
	next(&s.State)
	for _, p := range s.Pools {
		for range p.Classes {
			s.Classes = append(s.Classes, ClassSnapshot{})
			next(&s.Classes[len(s.Classes)-1])
		}
	}
	next(&s.Arrivals)
	if !errors.Is(dec.Decode(new(any)), io.EOF) {
		t.Fatal("more parts than were wanted")
	}
	return s
}

// parts hands out s to Restore.
func (s *rest) parts(t testing.TB) func(part any) error {
	var b bytes.Buffer
	put := func(part any) {
		if err := cbor.NewEncoder(&b).Encode(part); err != nil {
			t.Fatal(err)
		}
	}
	put(&s.State)
	for i := range s.Classes {
		put(&s.Classes[i])
	}
	put(&s.Arrivals)
	return cbor.NewDecoder(&b).Decode
}

// bytesOf is the state of a as it is written.
func bytesOf(t testing.TB, a *Aggregator) []byte {
	t.Helper()
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := a.Parts(mode.NewEncoder(&b).Encode); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// restarted is a as it comes back from its bytes.
func restarted(t testing.TB, a *Aggregator, cfg Config) *Aggregator {
	t.Helper()
	b, err := Restore(cfg, cbor.NewDecoder(bytes.NewReader(bytesOf(t, a))).Decode)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
