package features

import (
	"math/bits"

	"github.com/forewarm/forewarm/ingest"
)

// SessionAges is the number of groups into which the sessions of a class fall by the whole minutes since their newest
// turn ended: 0, 1, 2–3, 4–7, 8–15, 16 and more.
const SessionAges = 6

// SessionAge is one of those groups: what it takes to learn how soon sessions of that age take their next turn.
type SessionAge struct {
	Alive int // sessions of that age at the end of the minute
	Ended int // those that had it at the end of the minute before, and fell silent
	SessionActs
}

// SessionActs are what some sessions did in a minute.
type SessionActs struct {
	Woke    int64 `cbor:"1,keyasint"` // how many of them took a turn
	Turns   int64 `cbor:"2,keyasint"` // turns they took
	Prefill int64 `cbor:"3,keyasint"` // tokens of prompts that were not served from cache, of turns whose end was reported
	Output  int64 `cbor:"4,keyasint"` // tokens of output, of the same
}

// ageNew is the age of a session that began since the last minute ended.
const ageNew = SessionAges

func ageOf(silent moment) uint8 {
	return uint8(min(bits.Len64(uint64(max(silent, 0)/minuteLength)), SessionAges-1))
}

// count counts a record of a call in session s.
func (a *SessionActs) count(s *session, r *ingest.Request, turn bool) {
	if turn {
		a.Turns++
		if !s.woke {
			a.Woke++
		}
		s.woke = true
	}
	if r.Phase != ingest.PhaseArrived {
		a.Prefill += max(r.PromptTokens-max(r.CachedTokens, 0), 0)
		a.Output += max(r.OutputTokens, 0)
	}
}
