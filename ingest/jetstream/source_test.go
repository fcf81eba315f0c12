package jetstream

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/ingest/codec"
)

const dynamoRow = `{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1795240801000,"request":{"request_id":"r","model":"llama",` +
	`"request_received_ms":1795240800000,"output_tokens":3,"replay":{"trace_block_size":64,"input_length":130,"input_sequence_hashes":[1,2,3]}}}`

func TestCheckSources(t *testing.T) {
	dynamo := Source{Subject: "dynamo.request_trace.v1", Format: "dynamo"}
	for name, tc := range map[string]struct {
		sources []Source
		want    []string // parts of the error; none if valid
	}{
		"one":            {[]Source{dynamo}, nil},
		"wildcards":      {[]Source{{Subject: "*.request_trace.v1", Format: "dynamo"}, {Subject: "acme.*.usage.>", Format: "json", Pool: "p", Class: "c"}}, nil},
		"no subject":     {[]Source{{Format: "dynamo"}}, []string{"sources[0].subject", "words joined by dots"}},
		"text after >":   {[]Source{{Subject: "a.>.b", Format: "dynamo"}}, []string{"sources[0].subject"}},
		"system":         {[]Source{{Subject: "$SYS.>", Format: "dynamo"}}, []string{"sources[0].subject"}},
		"telemetry":      {[]Source{{Subject: "forewarm.telemetry.request.p", Format: "dynamo"}}, []string{"sources[0].subject", "forewarm.telemetry.>", "Content-Type"}},
		"dead letters":   {[]Source{{Subject: "*.deadletter", Format: "dynamo"}}, []string{"sources[0].subject"}},
		"everything":     {[]Source{{Subject: ">", Format: "dynamo"}}, []string{"sources[0].subject"}},
		"unknown format": {[]Source{{Subject: "a", Format: "dynmo"}}, []string{"sources[0].format", "dynmo", "ndjson", "dynamo"}},
		"twice":          {[]Source{dynamo, {Subject: "dynamo.>", Format: "json"}}, []string{"sources[1].subject", "sources[0]"}},
		"too many":       {make([]Source, 65), []string{"sources is 65 long", "64"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			c.Sources = tc.sources
			if err := c.Check(); len(tc.want) > 0 {
				wantError(t, err, tc.want...)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSourcesAreReadInTheirFormat(t *testing.T) {
	c, js := testServer(t)
	c.Sources = []Source{{Subject: "dynamo.*.trace", Format: "dynamo", Pool: "p"}, {Subject: "acme.>", Format: "json"}}
	telemetry(t, js, c)
	publish(t, js, "dynamo.eu.trace", []byte(dynamoRow))
	publish(t, js, "dynamo.us.trace", numbered(2), "Content-Type", codec.ContentTypeJSON) // the header wins
	publish(t, js, "acme.usage", numbered(3))
	publish(t, js, "acme.usage", []byte(dynamoRow), "content-type", codec.ContentTypeDynamo)
	publish(t, js, "forewarm.telemetry.request.p.c", numbered(5))
	publish(t, js, "forewarm.telemetry.weather", []byte("a secret"))
	consumer := consumerOf(js, c, 1)
	want := []string{"1 r", "2 2", "3 3", "4 r", "5 5", "6 unknown_subject"}
	if d := cmp.Diff(want, consume(t, consumer, len(want))); d != "" {
		t.Error(d)
	}

	c.Sources = c.Sources[:1] // the subject of a removed source leaves the stream, and its stored messages are refused
	if got := telemetry(t, js, c).CachedInfo().Config.Subjects; len(got) != 3 {
		t.Errorf("the stream has the subjects %v, want 3", got)
	}
	consumer = consumerOf(js, c, 3)
	if d := cmp.Diff([]string{"3 unknown_subject"}, consume(t, consumer, 1)); d != "" {
		t.Error(d)
	}
}

func TestSourceOfAnotherStream(t *testing.T) {
	ctx := testContext(t)
	c, js := testServer(t)
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "DYNAMO", Subjects: []string{"dynamo.>"}}); err != nil {
		t.Fatal(err)
	}
	c.Sources = []Source{{Subject: "dynamo.request_trace.v1", Format: "dynamo"}}
	fix := []string{"stream FOREWARM_TELEMETRY", "belongs to another stream", "forewarm.telemetry.>,forewarm.prescale.ack.>,dynamo.request_trace.v1"}
	_, err := Ensure(ctx, js, c)
	wantError(t, err, fix...)

	c.Sources = nil
	telemetry(t, js, c)
	c.Sources = []Source{{Subject: "dynamo.request_trace.v1", Format: "dynamo"}}
	_, err = Ensure(ctx, js, c) // the same error if the telemetry stream exists already
	wantError(t, err, fix...)

	c.Stream.Name = "DYNAMO" // only the first half of the remedy
	_, err = Ensure(ctx, js, c)
	wantError(t, err, "DYNAMO", "no subject that covers forewarm.telemetry.>")
}
