package codec

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/ingest"
)

func TestParseSubject(t *testing.T) {
	for subject, want := range map[string]Meta{
		"f.telemetry.request.p.c":       {Kind: KindRequest, Pool: "p", Class: "c"},
		"f.telemetry.request.p._":       {Kind: KindRequest, Pool: "p"},
		"f.telemetry.request.p":         {Kind: KindRequest, Pool: "p"},
		"f.telemetry.request":           {Kind: KindRequest},
		"f.telemetry.request.a%2Eb.%5F": {Kind: KindRequest, Pool: "a.b", Class: "_"},
		"f.telemetry.request.pöol.c":    {Kind: KindRequest, Pool: "pöol", Class: "c"},
		"f.telemetry.replica.p.r":       {Kind: KindReplica, Pool: "p", Replica: "r"},
		"f.telemetry.watermark._":       {Kind: KindWatermark},
		"f.telemetry.watermark.p":       {Kind: KindWatermark, Pool: "p"},
		"f.prescale.ack.p":              {Kind: KindAck, Pool: "p"},
	} {
		if got, ok := ParseSubject("f", subject); !ok || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", subject, got, ok, want)
		}
	}
	for _, subject := range []string{
		"", "f", "f.", "g.telemetry.request.p.c", "ff.telemetry.request.p.c", "f.telemetry", "f.telemetry.other.p", "f.telemetry.request.p.c.x",
		"f.telemetry.request..c", "f.telemetry.request.p.", "f.telemetry.request.%zz.c", "f.telemetry.request.%2", "f.telemetry.request.%FF",
		"f.telemetry.watermark.p.q", "f.prescale.p", "f.prescale.ack", "f.prescale.ack.p.q", "f.deadletter",
	} {
		if got, ok := ParseSubject("f", subject); ok {
			t.Errorf("%s: got %+v, want nothing", subject, got)
		}
	}
}

func TestSubjectsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pool, name := rapid.String().Draw(t, "pool"), rapid.String().Draw(t, "name")
		for subject, want := range map[string]Meta{
			ingest.Subject("a.b", ingest.RequestSubject, pool, name): {Kind: KindRequest, Pool: pool, Class: name},
			ingest.Subject("a.b", ingest.ReplicaSubject, pool, name): {Kind: KindReplica, Pool: pool, Replica: name},
			ingest.Subject("a.b", ingest.WatermarkSubject, pool):     {Kind: KindWatermark, Pool: pool},
			"a.b.prescale.ack." + ingest.EscapeToken(pool):           {Kind: KindAck, Pool: pool},
		} {
			if strings.ContainsAny(subject, " *>\t\r\n") || strings.Contains(subject, "..") {
				t.Fatalf("%q is not a valid subject", subject)
			}
			if got, ok := ParseSubject("a.b", subject); !ok || got != want {
				t.Fatalf("%s: got %+v, %v, want %+v", subject, got, ok, want)
			}
		}
	})
}
