package ingest

import "testing"

func TestSubjects(t *testing.T) {
	for got, want := range map[string]string{
		RequestSubject("forewarm", "llama-70b", "chat"): "forewarm.telemetry.request.llama-70b.chat",
		RequestSubject("a.b", "eu.west/llama 70b", ""):  "a.b.telemetry.request.eu%2Ewest/llama%2070b._",
		RequestSubject("forewarm", "_", "*"):            "forewarm.telemetry.request.%5F.%2A",
		ReplicaSubject("forewarm", "p", "r>0%"):         "forewarm.telemetry.replica.p.r%3E0%25",
		WatermarkSubject("forewarm", ""):                "forewarm.telemetry.watermark._",
		WatermarkSubject("forewarm", "pöol"):            "forewarm.telemetry.watermark.p%C3%B6ol",
		PrescaleSubject("forewarm", "p"):                "forewarm.prescale.p",
		ForecastSubject("forewarm", "p", "*"):           "forewarm.forecast.p.%2A",
		AlertSubject("forewarm", "p"):                   "forewarm.alert.p",
		DeadLetterSubject("forewarm"):                   "forewarm.deadletter",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
