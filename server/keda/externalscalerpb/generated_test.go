package externalscalerpb

import (
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

func TestGeneratedCodeIsOfTheSchema(t *testing.T) {
	testenv.SameSchema(t, "../../..", File_server_keda_externalscalerpb_externalscaler_proto)
}
