package codec

import (
	"testing"
	"unsafe"

	"github.com/forewarm/forewarm/ingest"
)

// TestDecoderReusesLabels: equal labels of several messages are the same string in memory. That holds for labels of
// records and for labels of subjects.
func TestDecoderReusesLabels(t *testing.T) {
	var d Decoder
	decoded := func(record string) ingest.Request {
		var b ingest.Batch
		subject := []byte("f.telemetry.request.pool.class")
		meta, _ := ParseSubject("f", string(subject))
		d.Decode(meta, []byte(record), ingest.DefaultLimits(), &b)
		if len(b.Refused) > 0 {
			t.Fatal(b.Refused)
		}
		return b.Requests[0]
	}
	for name, record := range map[string]string{
		"of the subject": `{"arrived_at":` + atMS + `,"prompt_tokens":7}`,
		"of the record":  `{"arrived_at":` + atMS + `,"prompt_tokens":7,"pool":"q","class":"a class with a long name"}`,
	} {
		one, two := decoded(record), decoded(record)
		if one.Class == "" || unsafe.StringData(one.Pool) != unsafe.StringData(two.Pool) || unsafe.StringData(one.Class) != unsafe.StringData(two.Class) {
			t.Errorf("%s: %q and %q are new strings", name, one.Pool, one.Class)
		}
	}
}
