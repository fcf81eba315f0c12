package features

import "github.com/forewarm/forewarm/ingest"

// figures are the fields of a window that edge aggregators publish, by their place in ingest.Window.Figures; those of Late
// follow.
func (w *Window) figures() [ingest.FigureLateRecords]*float64 {
	return [...]*float64{
		ingest.FigureRecords: &w.Records, ingest.FigureAttempts: &w.Attempts, ingest.FigureRequests: &w.Requests,
		ingest.FigureRetries: &w.Retries, ingest.FigureRejected: &w.Rejected, ingest.FigureCancelled: &w.Cancelled,
		ingest.FigureRequestsKnown: &w.RequestsKnown, ingest.FigurePromptKnown: &w.PromptKnown, ingest.FigureCachedKnown: &w.CachedKnown,
		ingest.FigureOutputKnown: &w.OutputKnown, ingest.FigureKVKnown: &w.KVKnown,
		ingest.FigurePromptTokens: &w.PromptTokens, ingest.FigureCachedTokens: &w.CachedTokens,
		ingest.FigurePromptOfCachedKnown: &w.PromptOfCachedKnown, ingest.FigureOutputTokens: &w.OutputTokens,
		ingest.FigureKVTokenSeconds: &w.KVTokenSeconds, ingest.FigureKVModelled: &w.KVModelled,
		ingest.FigureKVSlot1: &w.KVSlots[0], ingest.FigureKVSlot2: &w.KVSlots[1], ingest.FigureKVSlot3: &w.KVSlots[2],
		ingest.FigureKVSlot4: &w.KVSlots[3], ingest.FigureKVSlot5: &w.KVSlots[4], ingest.FigureKVSlot6: &w.KVSlots[5],
		ingest.FigureMomentN: &w.Moments.N, ingest.FigureMomentPrompt: &w.Moments.Prompt, ingest.FigureMomentOutput: &w.Moments.Output,
		ingest.FigureMomentPromptOutput: &w.Moments.PromptOutput, ingest.FigureMomentOutputSq: &w.Moments.OutputSq,
		ingest.FigurePromptRetried: &w.PromptRetried, ingest.FigureOutputRetried: &w.OutputRetried, ingest.FigureKVRetried: &w.KVRetried,
		ingest.FigureCachedUnserved: &w.CachedUnserved, ingest.FigureOutputUnserved: &w.OutputUnserved, ingest.FigureKVUnserved: &w.KVUnserved,
		ingest.FigureOutputDelayed: &w.OutputDelayed, ingest.FigureKVDelayed: &w.KVDelayed,
	}
}

// figures are the fields of Late, from ingest.FigureLateRecords on.
func (l *Late) figures() [ingest.WindowFigures - int(ingest.FigureLateRecords)]*float64 {
	return [...]*float64{&l.Records, &l.Requests, &l.PromptTokens, &l.CachedTokens, &l.OutputTokens, &l.KVTokenSeconds}
}

// figures are the sums over sessions, by their place in ingest.Window.Sessions.
func (s *sessionSums) figures() [ingest.SessionEnded + 1]*int64 {
	return [...]*int64{
		ingest.SessionActive: &s.active, ingest.SessionAgeMillis: &s.ageMillis, ingest.SessionTurns: &s.turns, ingest.SessionLaterTurns: &s.later,
		ingest.SessionGrowth: &s.growth, ingest.SessionContext: &s.context, ingest.SessionLargest: &s.largest,
		ingest.SessionPrompt: &s.prompt, ingest.SessionCached: &s.cached, ingest.SessionEnded: &s.ended,
	}
}
