package features

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/forewarm/forewarm/ingest"
)

// MaxArchetypes is the most archetypes that can be learned for a pool.
const MaxArchetypes = 16

// The lengths of requests are kept on a grid of half octaves: prompts to a million tokens, outputs to a quarter of one;
// what is longer lies on the edge.
const (
	perOctave  = 2
	promptBins = 20*perOctave + 1
	outputBins = 18*perOctave + 1
	gridCells  = promptBins * outputBins
)

const (
	// halfLife of what was seen, in minutes of event time: a type of traffic that rests overnight is still known.
	archetypeHalfLife = 12 * 60
	// Archetypes are drawn anew when so much more was seen, or so many minutes have passed.
	redrawGrowth  = 1.25
	redrawMinutes = 60
	// leastSeen is how many requests it takes to draw the first time.
	leastSeen = 200
	// minDecay is how far old requests fade before all are written anew.
	minDecay = 1.0 / (1 << 40)
)

// Archetypes learns classes from the lengths of a pool's requests: those whose prompt and output, on a logarithmic scale,
// crowd together. It keeps a histogram of the two that fades, and draws the borders between the crowds anew from time to
// time (see redraw); in between, the class of a request is a look-up. Names, a0, a1 …, are given once: a crowd keeps its
// name while it drifts, a new one gets the next number, one that comes back where it was gets its own name back.
//
// A request whose output is not known, because it has only arrived or was cut off, is classed by its prompt alone: as
// what most requests of such a prompt turned out to be. The Aggregator keeps it there when it ends.
//
// The zero value is not usable; an Archetypes must not be used by two goroutines at once. 16 KiB.
type Archetypes struct {
	most  int
	unit  float64 // what a stored request of one is worth
	total float64
	seen  [gridCells]float64 // requests by prompt and output

	live    []Archetype // at most most; never empty
	retired []Archetype // newest last, at most maxRetired
	next    int         // number of the next new one
	byBoth  [gridCells]uint8
	byFirst [promptBins]uint8 // by prompt alone
	drawn   float64           // total when the borders were drawn
	minutes int               // since then
}

// Archetype is one crowd. Its centre is a mean of logarithms.
type Archetype struct {
	Number int     `cbor:"1,keyasint"`
	Prompt float64 `cbor:"2,keyasint"` // of the centre, log₂ tokens
	Output float64 `cbor:"3,keyasint"` // of the centre, log₂ tokens
	Share  float64 `cbor:"4,keyasint"` // of the requests seen, 0..1
}

// Class is the archetype's name.
func (a *Archetype) Class() string {
	if a.Number < len(archetypeNames) {
		return archetypeNames[a.Number]
	}
	return fmt.Sprint("a", a.Number)
}

// archetypeNames are at hand, so that naming a request allocates nothing.
var archetypeNames = func() (names [256]string) {
	for i := range names {
		names[i] = fmt.Sprint("a", i)
	}
	return names
}()

// NewArchetypes learns at most so many archetypes, 1 to MaxArchetypes. Until it has seen enough to tell crowds apart,
// there is one.
func NewArchetypes(most int) *Archetypes {
	return &Archetypes{most: min(max(most, 1), MaxArchetypes), unit: 1, live: []Archetype{{Share: 1}}, next: 1}
}

// Class learns from a request and gives its class; "" when the length of its prompt is not known.
func (a *Archetypes) Class(r *ingest.Request) string {
	if r.PromptTokens < 0 {
		return ""
	}
	prompt := bin(r.PromptTokens, promptBins)
	if r.OutputTokens < 0 || r.Phase != ingest.PhaseFinished || r.Status != ingest.StatusOK {
		return a.live[a.byFirst[prompt]].Class()
	}
	cell := prompt*outputBins + bin(r.OutputTokens, outputBins)
	a.seen[cell] += 1 / a.unit
	a.total += 1 / a.unit
	return a.live[a.byBoth[cell]].Class()
}

// Tick tells that a minute has passed.
func (a *Archetypes) Tick() {
	a.minutes++
	a.unit *= archetypeFade
	if a.unit < minDecay {
		a.rewrite()
	}
	total := a.total * a.unit
	if total >= leastSeen && (total > redrawGrowth*a.drawn || a.minutes >= redrawMinutes) {
		a.redraw()
		a.drawn, a.minutes = total, 0
	}
}

var archetypeFade = math.Exp2(-1.0 / archetypeHalfLife)

// rewrite stores what was seen in units of one.
func (a *Archetypes) rewrite() {
	for i := range a.seen {
		a.seen[i] *= a.unit
	}
	a.total *= a.unit
	a.unit = 1
}

// List copies the archetypes there are, in the order of their numbers.
func (a *Archetypes) List() []Archetype {
	list := slices.Clone(a.live)
	slices.SortFunc(list, func(x, y Archetype) int { return x.Number - y.Number })
	return list
}

// binStarts are the token counts at which the bins begin, half way between two centres: bin i is around 2^(i/perOctave).
var binStarts = func() (starts [max(promptBins, outputBins)]int64) {
	for i := 1; i < len(starts); i++ {
		starts[i] = int64(math.Ceil(math.Exp2((float64(i) - 0.5) / perOctave)))
	}
	return starts
}()

// bin is where a number of tokens lies on an axis of so many bins.
func bin(tokens int64, bins int) int {
	if tokens < 2 {
		return 0
	}
	octave := bits.Len64(uint64(tokens)) - 1
	i := min(perOctave*octave, bins-1) // around 2^octave, which is not above tokens
	for i+1 < bins && binStarts[i+1] <= tokens {
		i++
	}
	return i
}
