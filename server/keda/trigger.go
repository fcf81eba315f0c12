package keda

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/forewarm/forewarm/internal/value"
	"github.com/forewarm/forewarm/server"
	pb "github.com/forewarm/forewarm/server/keda/externalscalerpb"
)

// readTrigger returns the pool and the role in the metadata that KEDA sends with every call. KEDA also sends its own
// keys, and may add more. A misspelt role would select all roles, so a key that is similar to one of ours is an error.
// Errors are gRPC statuses that name the key.
func readTrigger(ref *pb.ScaledObjectRef) (pool, role string, err error) {
	role = server.RoleAll
	metadata := ref.GetScalerMetadata()
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		switch name := strings.TrimSuffix(key, "FromEnv"); name { // KEDA takes the value from the environment of the target
		case "pool":
			pool = metadata[key]
		case "role":
			role = metadata[key]
		default:
			if question := value.DidYouMean(strings.ToLower(name), []string{"pool", "role"}); question != "" {
				return "", "", status.Errorf(codes.InvalidArgument, "metadata %s: unknown key; %s", key, question)
			}
		}
	}
	if pool == "" {
		return "", "", status.Error(codes.InvalidArgument, "metadata pool is missing: name the pool whose replicas the target is")
	}
	return pool, role, nil
}
