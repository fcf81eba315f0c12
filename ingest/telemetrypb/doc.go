// Package telemetrypb is the Go code of telemetry.proto, for producers that are written in Go. Forewarm itself reads and
// writes the same bytes without this code: see codec.Decode and codec.AppendProtobuf.
package telemetrypb

//go:generate protoc -I ../.. --go_out=../.. --go_opt=paths=source_relative ingest/telemetrypb/telemetry.proto
