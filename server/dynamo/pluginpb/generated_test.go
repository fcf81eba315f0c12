package pluginpb

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestGeneratedCodeIsOfTheSchema compiles the schema and compares it with the one in the generated code.
func TestGeneratedCodeIsOfTheSchema(t *testing.T) {
	protoc, err := exec.LookPath("protoc")
	if err != nil {
		if os.Getenv("FOREWARM_CI") == "1" {
			t.Fatal("install protobuf-compiler: ", err)
		}
		t.Skip("install protobuf-compiler: ", err)
	}
	out := filepath.Join(t.TempDir(), "schema")
	if text, err := exec.Command(protoc, "-I", "../../..", "--descriptor_set_out="+out, "server/dynamo/pluginpb/plugin.proto").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var schema descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	if generated := protodesc.ToFileDescriptorProto(File_server_dynamo_pluginpb_plugin_proto); !proto.Equal(schema.File[0], generated) {
		t.Errorf("run go generate: the code has\n%v\nand the schema\n%v", generated, schema.File[0])
	}
}
