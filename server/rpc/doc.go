// Package rpc runs the gRPC listeners at which autoscalers ask: with TLS, and with bounds on connections, on calls at once
// and on the size of messages. What is answered is read only.
package rpc
