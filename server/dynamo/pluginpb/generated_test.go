package pluginpb

import (
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

func TestGeneratedCodeIsOfTheSchema(t *testing.T) {
	testenv.SameSchema(t, "../../..", File_server_dynamo_pluginpb_plugin_proto)
}
