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

// fromEnv is the suffix of a key whose value KEDA reads from the environment of the target.
const fromEnv = "FromEnv"

// readTrigger returns the pool and the role in the metadata that KEDA sends with every call. KEDA also sends its own
// keys, and may add more. A misspelt role would select all roles, so it is an error. Errors are gRPC statuses that name
// the key.
func readTrigger(ref *pb.ScaledObjectRef) (pool, role string, err error) {
	role = server.RoleAll
	metadata := ref.GetScalerMetadata()
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		name := strings.TrimSuffix(key, fromEnv)
		switch lower := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(key)); {
		case name == "pool":
			pool = metadata[key]
		case name == "role":
			role = metadata[key]
		case lower == "pool" || lower == "role":
			return "", "", status.Errorf(codes.InvalidArgument, "metadata %s: the key is written %s", key, lower)
		}
	}
	if pool == "" {
		return "", "", status.Error(codes.InvalidArgument, "metadata pool is missing: name the pool whose replicas the target is")
	}
	return pool, role, nil
}
