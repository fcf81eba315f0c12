package keda

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// trigger is the metadata of a trigger.
type trigger struct {
	pool string
	role string
}

// Forewarm's keys in a trigger's metadata. KEDA also sends its own keys, and may add more.
const (
	keyPool = "pool"
	keyRole = "role"
)

// fromEnv is the suffix of a key whose value KEDA reads from the environment of the target.
const fromEnv = "FromEnv"

// readTrigger parses the metadata that KEDA sends with every call. The error is a gRPC status that names the key.
func readTrigger(ref *pb.ScaledObjectRef) (trigger, error) {
	t := trigger{role: server.RoleAll}
	metadata := ref.GetScalerMetadata()
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		value := metadata[key]
		switch strings.TrimSuffix(key, fromEnv) {
		case keyPool:
			t.pool = value
		case keyRole:
			t.role = value
		default:
			if near, ok := misspelt(key); ok {
				return trigger{}, status.Errorf(codes.InvalidArgument, "metadata %s: the key is written %s", key, near)
			}
		}
	}
	if t.pool == "" {
		return trigger{}, status.Error(codes.InvalidArgument, "metadata pool is missing: name the pool whose replicas the target is")
	}
	return t, nil
}

// misspelt finds the key that was probably meant: a misspelt one would select all roles.
func misspelt(key string) (string, bool) {
	for _, ours := range []string{keyPool, keyRole} {
		if strings.EqualFold(strings.NewReplacer("_", "", "-", "").Replace(key), ours) {
			return ours, true
		}
	}
	return "", false
}
