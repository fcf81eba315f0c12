package keda

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// FuzzTrigger wants of any metadata a pool and a role, or a complaint about the metadata.
func FuzzTrigger(f *testing.F) {
	f.Add("pool", "chat", "role", "decode")
	f.Add("poolFromEnv", "chat", "role", "all")
	f.Add("pool", "chat", "Role", "all")
	f.Add("FromEnv", "", "scalerAddress", "a:1")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		got, err := readTrigger(&pb.ScaledObjectRef{ScalerMetadata: map[string]string{key1: value1, key2: value2}})
		switch {
		case err != nil && (status.Code(err) != codes.InvalidArgument || got != trigger{}):
			t.Errorf("%v with %v", err, got)
		case err == nil && (got.pool == "" || got.pool != value1 && got.pool != value2):
			t.Errorf("pool %q", got.pool)
		}
	})
}
