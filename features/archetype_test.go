package features

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/ingest"
)

// kind is a type of traffic: log-normal lengths, in log₂ tokens.
type kind struct {
	prompt, promptDev, output, outputDev float64
	perMinute                            float64
}

var (
	chatKind  = kind{9, .8, 7.5, .9, 20}
	agentKind = kind{14, .7, 8.5, 1, 8}
	sumKind   = kind{12.5, .5, 4.5, .5, 5}
	codeKind  = kind{6, .6, 10.5, .7, 5}
)

func drawLength(rng *rand.Rand, mean, dev float64) int64 {
	return max(1, int64(math.Exp2(mean+dev*rng.NormFloat64())))
}

// live gives archetypes n minutes of traffic and returns how often each kind had each name.
func live(a *Archetypes, rng *rand.Rand, n int, kinds ...kind) []map[string]int {
	got := make([]map[string]int, len(kinds))
	for i := range got {
		got[i] = map[string]int{}
	}
	for range n {
		for i, k := range kinds {
			for c := k.perMinute + rng.Float64(); c >= 1; c-- {
				r := request("", 0)
				r.Class, r.PromptTokens, r.OutputTokens = "", drawLength(rng, k.prompt, k.promptDev), drawLength(rng, k.output, k.outputDev)
				got[i][a.Class(r)]++
			}
		}
		a.Tick()
	}
	return got
}

// mainName is the name that at least share of the requests had.
func mainName(t *testing.T, what string, names map[string]int, share float64) string {
	t.Helper()
	total, best := 0, ""
	for _, name := range slices.Sorted(maps.Keys(names)) {
		total += names[name]
		if names[name] > names[best] {
			best = name
		}
	}
	if got := float64(names[best]) / float64(total); got < share {
		t.Errorf("%s: %.3f are %s, want %.3f: %v", what, got, best, share, names)
	}
	return best
}

func mainNames(t *testing.T, what string, got []map[string]int, share float64) (names []string) {
	t.Helper()
	for i := range got {
		names = append(names, mainName(t, fmt.Sprint(what, ", kind ", i), got[i], share))
	}
	return names
}

func TestArchetypesOfMixtures(t *testing.T) {
	for name, kinds := range map[string][]kind{
		"one":                 {chatKind},
		"one that is broad":   {{10, 2.5, 7, 2, 40}},
		"two":                 {chatKind, agentKind},
		"three":               {chatKind, agentKind, sumKind},
		"four, one much less": {chatKind, agentKind, sumKind, {6, .6, 10.5, .7, 1.5}},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(3) {
				a, rng := NewArchetypes(8), rand.New(rand.NewPCG(seed, 1))
				live(a, rng, 6*60, kinds...)
				names := mainNames(t, "after six hours", live(a, rng, 240, kinds...), .95)
				slices.Sort(names)
				if n := len(slices.Compact(names)); n != len(kinds) || len(a.live) != n {
					t.Errorf("seed %d: names %v, archetypes %+v", seed, names, a.live)
				}
			}
		})
	}
}

func TestArchetypeNamesStay(t *testing.T) {
	a, rng := NewArchetypes(8), rand.New(rand.NewPCG(7, 1))
	kinds := []kind{chatKind, agentKind, sumKind}
	live(a, rng, 6*60, kinds...)
	names := mainNames(t, "at first", live(a, rng, 60, kinds...), .96)
	check := func(what string, got []map[string]int) {
		t.Helper()
		if now := mainNames(t, what, got, .9); !slices.Equal(now, names) {
			t.Errorf("%s: names %v, were %v", what, now, names)
		}
	}
	for day := range 4 { // prompts of chat grow by an octave and a half, outputs of agents shrink by one
		for range 24 {
			kinds[0].prompt += 1.5 / 96
			kinds[1].output -= 1.0 / 96
			live(a, rng, 60, kinds...)
		}
		check(fmt.Sprint("day ", day), live(a, rng, 30, kinds...))
	}
	for range 24 * 60 { // nobody comes for a day
		a.Tick()
	}
	check("after a day's gap", live(a, rng, 30, kinds...))

	live(a, rng, 5*24*60, kinds[0], kinds[2]) // no agents for days
	if slices.ContainsFunc(a.live, func(x Archetype) bool { return x.Class() == names[1] }) {
		t.Errorf("%s is still there: %+v", names[1], a.live)
	}
	live(a, rng, 24*60, kinds[0], kinds[2], codeKind) // something new
	fresh := mainName(t, "new kind", live(a, rng, 60, codeKind)[0], .94)
	if slices.Contains(names, fresh) {
		t.Errorf("the new kind has the name %s of an old one", fresh)
	}
	live(a, rng, 24*60, kinds...) // agents are back
	check("after all", live(a, rng, 60, kinds...))
	if a.next != 4 {
		t.Errorf("%d names were given, want 4: live %+v, retired %+v", a.next, a.live, a.retired)
	}
}

// Two kinds whose centres come close are one, and two again only when they have parted clearly.
func TestArchetypesMergeAndSplitWithHysteresis(t *testing.T) {
	a, rng := NewArchetypes(8), rand.New(rand.NewPCG(3, 1))
	two := func(gap float64) (n int) {
		live(a, rng, 3*24*60, kind{10 - gap/2, .6, 7, .6, 15}, kind{10 + gap/2, .6, 7, .6, 15})
		return len(a.live)
	}
	var got []int
	for _, gap := range []float64{3.5, 2.2, 0.5, 2.2, 3.5} {
		got = append(got, two(gap))
	}
	if want := []int{2, 2, 1, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("%v archetypes, want %v", got, want)
	}
	if a.next != 2 {
		t.Errorf("%d names were given, want 2: the second came back", a.next)
	}
}

func TestArchetypeOfWhatIsNotKnown(t *testing.T) {
	a, rng := NewArchetypes(8), rand.New(rand.NewPCG(5, 1))
	before := a.Class(changed(request("", 0), tokens(500, 0, ingest.Unknown)))
	kinds := []kind{chatKind, agentKind}
	live(a, rng, 6*60, kinds...)
	names := mainNames(t, "with output", live(a, rng, 60, kinds...), .96)
	if before != "a0" {
		t.Errorf("before anything is known the class is %q, want a0", before)
	}
	total := a.total
	for i, prompt := range []int64{500, 20000} {
		for what, r := range map[string]*ingest.Request{
			"arrived":   changed(request("", 0), tokens(prompt, 0, ingest.Unknown), phase(ingest.PhaseArrived)),
			"cancelled": changed(request("", 0), tokens(prompt, 0, 3), phase(ingest.PhaseCancelled)),
			"failed":    changed(request("", 0), tokens(prompt, 0, 3), func(r *ingest.Request) { r.Status = ingest.StatusError }),
		} {
			if got := a.Class(r); got != names[i] {
				t.Errorf("%s with a prompt of %d: %s, want %s", what, prompt, got, names[i])
			}
		}
	}
	if a.total != total {
		t.Error("learned from requests that were cut off")
	}
	if got := a.Class(changed(request("", 0), tokens(ingest.Unknown, ingest.Unknown, 5))); got != "" {
		t.Errorf("a request of unknown length is %q", got)
	}
}

func TestArchetypesRestored(t *testing.T) {
	a, rng := NewArchetypes(4), rand.New(rand.NewPCG(1, 1))
	live(a, rng, 100, chatKind, agentKind)
	b, err := RestoreArchetypes(4, a.State())
	if err != nil {
		t.Fatal(err)
	}
	x := live(a, rand.New(rand.NewPCG(2, 1)), 3*24*60, chatKind, sumKind)
	y := live(b, rand.New(rand.NewPCG(2, 1)), 3*24*60, chatKind, sumKind)
	if diff := cmp.Diff(x, y); diff != "" {
		t.Errorf("names differ after a restart (-kept +restored):\n%s", diff)
	}
	if diff := cmp.Diff(a.State(), b.State()); diff != "" {
		t.Errorf("states differ after a restart (-kept +restored):\n%s", diff)
	}
	for name, spoil := range map[string]func(*ArchetypesState){
		"cells":   func(s *ArchetypesState) { s.Cells[0] = gridCells },
		"weight":  func(s *ArchetypesState) { s.Seen[0] = math.Inf(1) },
		"borders": func(s *ArchetypesState) { s.ByFirst[3] = 200 },
		"unit":    func(s *ArchetypesState) { s.Unit = 0 },
		"none":    func(s *ArchetypesState) { s.Live = nil },
	} {
		s := a.State()
		spoil(s)
		if _, err := RestoreArchetypes(4, s); err == nil {
			t.Errorf("%s: a state that cannot be was taken", name)
		}
	}
}

func TestBin(t *testing.T) {
	last := 0
	for tokens := int64(0); tokens < 1<<21; tokens += 1 + tokens/100 {
		i := bin(tokens, promptBins)
		if want := math.Log2(max(1, float64(tokens))) * perOctave; i < promptBins-1 && math.Abs(float64(i)-want) > .5+1e-9 && tokens > 3 {
			t.Fatalf("%d tokens lie in bin %d, want %.2f", tokens, i, want)
		}
		if i < last || i >= promptBins {
			t.Fatalf("%d tokens lie in bin %d after %d", tokens, i, last)
		}
		last = i
	}
}

func BenchmarkArchetypeClass(b *testing.B) {
	a, rng := NewArchetypes(8), rand.New(rand.NewPCG(1, 1))
	live(a, rng, 300, chatKind, agentKind, sumKind)
	requests := make([]*ingest.Request, 1000)
	for i := range requests {
		requests[i] = changed(request("", 0), tokens(drawLength(rng, 10, 2), 0, drawLength(rng, 8, 2)))
	}
	b.ReportAllocs()
	for i := range b.N {
		a.Class(requests[i%len(requests)])
	}
}

func BenchmarkArchetypeRedraw(b *testing.B) {
	a, rng := NewArchetypes(8), rand.New(rand.NewPCG(1, 1))
	live(a, rng, 300, chatKind, agentKind, sumKind)
	for b.Loop() {
		a.redraw()
	}
}
