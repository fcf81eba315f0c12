package sketch

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Values that wait are counted as if they had been added one after the other, whenever that is done.
func TestPending(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, all [PendingSketches]Quantile
		p := new(Pending)
		p.Begin(nil)
		count := func() {
			p.Count(all[:])
			p.Clear()
			p.Begin(all[:])
		}
		extends := rapid.Bool().Draw(t, "extends")
		for range rapid.IntRange(1, 8).Draw(t, "parts") {
			k := rapid.IntRange(0, PendingSketches-1).Draw(t, "sketch")
			for _, v := range append(values(t), math.NaN(), -1, 2*MaxValue) {
				one[k].Add(v)
				if !p.Add(k, v) && !(extends && p.Extend(func() *PendingRoom { return new(PendingRoom) })) {
					count()
				}
			}
			if rapid.Bool().Draw(t, "count") {
				count()
			}
		}
		count()
		for k := range one {
			if !one[k].Equal(&all[k]) || len(one[k].list) != len(all[k].list) || len(one[k].dense) != len(all[k].dense) {
				t.Fatal("values that waited are counted otherwise")
			}
		}
	})
}

// A Pending that is extended as often as it can be holds all values, and a copy of it holds them when it is emptied.
func TestPendingExtended(t *testing.T) {
	const most = (pendingParts + 1) * pendingValues
	var want, got [1]Quantile
	p, rooms := new(Pending), 0
	fresh := func() *PendingRoom {
		rooms++
		return new(PendingRoom)
	}
	p.Begin(nil)
	n := 0
	for full := false; !full; n++ {
		v := float64(n*n%9973) / 7
		want[0].Add(v)
		full = !p.Add(0, v) && !p.Extend(fresh)
	}
	if n != most || rooms != 1 || p.Extensible() {
		t.Errorf("%d values in %d rooms, want %d in one", n, rooms, most)
	}
	c := new(Pending)
	c.Copy(p, fresh)
	if room := p.Clear(); room == nil || room.n != 0 || p.Extended() || p.n != 0 {
		t.Error("what was emptied is not empty")
	}
	p.Begin(nil)
	for i := range 2 * pendingValues {
		if !p.Add(0, float64(i)) {
			p.Extend(fresh)
		}
	}
	if c.Count(got[:]); !got[0].Equal(&want[0]) || !c.Extended() {
		t.Errorf("the copy counts %v values, want %d", got[0].Count(), most)
	}
}
