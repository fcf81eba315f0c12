package keda

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// FuzzTrigger: any metadata gives a pool and a role, or an error about the metadata.
func FuzzTrigger(f *testing.F) {
	f.Add("pool", "chat", "role", "decode")
	f.Add("poolFromEnv", "chat", "role", "all")
	f.Add("pool", "chat", "Role", "all")
	f.Add("FromEnv", "", "scalerAddress", "a:1")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		pool, role, err := readTrigger(&pb.ScaledObjectRef{ScalerMetadata: map[string]string{key1: value1, key2: value2}})
		switch {
		case err != nil && (status.Code(err) != codes.InvalidArgument || pool+role != ""):
			t.Errorf("%v with %q, %q", err, pool, role)
		case err == nil && (pool == "" || pool != value1 && pool != value2):
			t.Errorf("pool %q", pool)
		}
	})
}
