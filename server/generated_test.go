package server

import (
	"testing"

	"github.com/bufbuild/protocompile"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/forewarm/forewarm/server/dynamo/pluginpb"
	"github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// TestGeneratedCodeIsOfTheSchema compiles the schemas that code was generated from, and compares them with the code.
func TestGeneratedCodeIsOfTheSchema(t *testing.T) {
	source := &protocompile.SourceResolver{ImportPaths: []string{".."}}
	compiler := protocompile.Compiler{Resolver: protocompile.WithStandardImports(source)}
	for _, code := range []protoreflect.FileDescriptor{
		pluginpb.File_server_dynamo_pluginpb_plugin_proto, externalscalerpb.File_server_keda_externalscalerpb_externalscaler_proto,
	} {
		files, err := compiler.Compile(t.Context(), code.Path())
		if err != nil {
			t.Fatal(err)
		}
		schema, generated := protodesc.ToFileDescriptorProto(files[0]), protodesc.ToFileDescriptorProto(code)
		if !proto.Equal(schema, generated) {
			t.Errorf("run go generate: the code has\n%v\nand the schema\n%v", generated, schema)
		}
	}
}
