package testenv

import (
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// SameSchema compiles the schema that code was generated from, and compares it with code. root is the directory of
// schemas, relative to the test.
func SameSchema(t testing.TB, root string, code protoreflect.FileDescriptor) {
	t.Helper()
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}})}
	files, err := compiler.Compile(t.Context(), code.Path())
	if err != nil {
		t.Fatal(err)
	}
	schema, generated := protodesc.ToFileDescriptorProto(files[0]), protodesc.ToFileDescriptorProto(code)
	if !proto.Equal(schema, generated) {
		t.Errorf("run go generate: the code has\n%v\nand the schema\n%v", generated, schema)
	}
}
