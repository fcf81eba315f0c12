package ingest

import "testing"

func TestSubjects(t *testing.T) {
	for got, want := range map[string]string{
		Subject("forewarm", RequestSubject, "llama-70b", "chat"): "forewarm.telemetry.request.llama-70b.chat",
		Subject("a.b", RequestSubject, "eu.west/llama 70b", ""):  "a.b.telemetry.request.eu%2Ewest/llama%2070b._",
		Subject("forewarm", RequestSubject, "_", "*"):            "forewarm.telemetry.request.%5F.%2A",
		Subject("forewarm", ReplicaSubject, "p", "r>0%"):         "forewarm.telemetry.replica.p.r%3E0%25",
		Subject("forewarm", WatermarkSubject, ""):                "forewarm.telemetry.watermark._",
		Subject("forewarm", WatermarkSubject, "pöol"):            "forewarm.telemetry.watermark.p%C3%B6ol",
		Subject("forewarm", PrescaleSubject, "p"):                "forewarm.prescale.p",
		Subject("forewarm", ForecastSubject, "p", "*"):           "forewarm.forecast.p.%2A",
		Subject("forewarm", AlertSubject, "p"):                   "forewarm.alert.p",
		Subject("forewarm", DeadLetterSubject):                   "forewarm.deadletter",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
