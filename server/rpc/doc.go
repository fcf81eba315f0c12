// Package rpc runs the gRPC listeners for autoscalers, with TLS and bounds on connections, concurrent calls and message
// size. All services are read-only.
package rpc
