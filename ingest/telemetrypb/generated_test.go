package telemetrypb

import (
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

func TestGeneratedCodeIsOfTheSchema(t *testing.T) {
	testenv.SameSchema(t, "../..", File_ingest_telemetrypb_telemetry_proto)
}
