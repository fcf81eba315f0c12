// Package externalscalerpb is the Go code of externalscaler.proto, the contract between KEDA and an external scaler.
package externalscalerpb

//go:generate protoc -I ../../.. --go_out=../../.. --go_opt=paths=source_relative --go-grpc_out=../../.. --go-grpc_opt=paths=source_relative server/keda/externalscalerpb/externalscaler.proto
