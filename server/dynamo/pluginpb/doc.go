// Package pluginpb is the Go code of plugin.proto, the contract between the planner of NVIDIA Dynamo and its plug-ins.
package pluginpb

//go:generate protoc -I ../../.. --go_out=../../.. --go_opt=paths=source_relative --go-grpc_out=../../.. --go-grpc_opt=paths=source_relative server/dynamo/pluginpb/plugin.proto
