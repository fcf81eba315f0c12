package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// SameSchema compiles the schema that code was generated from, and compares the two. root is the directory of schemas,
// relative to the test.
func SameSchema(t testing.TB, root string, code protoreflect.FileDescriptor) {
	t.Helper()
	protoc := Program(t, "protobuf-compiler", "protoc")
	out := filepath.Join(t.TempDir(), "schema")
	if text, err := exec.CommandContext(t.Context(), protoc, "-I", root, "--descriptor_set_out="+out, code.Path()).CombinedOutput(); err != nil {
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
	if generated := protodesc.ToFileDescriptorProto(code); !proto.Equal(schema.File[0], generated) {
		t.Errorf("run go generate: the code has\n%v\nand the schema\n%v", generated, schema.File[0])
	}
}
