package pluginpb

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// published are the fields of the planner's contract by name, number and type, as ai-dynamo/dynamo has them in plugin.proto
// of protocol version 1.0.
const published = `
AcceptResult
BootstrapRequest bootstrap_data=1:bytes hints=2:message
BootstrapResponse ok=1:bool message=2:string
ComponentTarget sub_component_type=1:string replicas=3:int32? type=4:enum
HeartbeatRequest plugin_id=1:string auth_token=2:string
HeartbeatResponse ok=1:bool
ObservationData traffic=1:message? workers=3:message?
OverrideResult targets=1:message reason=2:string
PipelineContext request_id=1:string decision_id=2:string observations=3:message? predictions=4:message?
PredictStageRequest context=1:message
PredictStageResponse predictions=1:message reason=2:string final=3:bool
PredictionData predicted_num_req=1:float? predicted_isl=2:float? predicted_osl=3:float? source=4:string predicted_kv_hit_rate=5:float?
ProposeStageRequest context=1:message
ProposeStageResponse accept=1:message override=2:message reject=3:message final=4:bool
RegisterRequest plugin_id=1:string plugin_type=2:string priority=3:uint32 endpoint=4:string version=5:string execution_interval_seconds=6:float hold_policy=7:enum needs=8:string protocol_version=9:string auth_token=10:string requires_produced_fields=13:string observation_window_seconds=14:float
RegisterResponse accepted=1:bool reject_reason=2:string negotiated_protocol_version=3:string
RejectResult reason=1:string
ResetRequest reason=1:string
ResetResponse ok=1:bool message=2:string
TrafficMetrics duration_s=1:float num_req=2:float isl=3:float osl=4:float kv_hit_rate=5:float?
UnregisterRequest plugin_id=1:string reason=2:string auth_token=3:string
UnregisterResponse ok=1:bool
WorkerState ready_prefill=1:int32? ready_decode=2:int32? expected_prefill=3:int32? expected_decode=4:int32?
HoldPolicy ACCEPT_WHEN_IDLE=0 HOLD_LAST=1
OverrideType SET=0 AT_LEAST=1 AT_MOST=2
PluginLifecycle Bootstrap Reset
PluginRegistry Register Heartbeat Unregister
PredictPlugin Predict
ProposePlugin Propose
`

func TestContract(t *testing.T) {
	file := File_server_dynamo_pluginpb_plugin_proto
	if file.Package() != "dynamo.planner.plugin.v1" {
		t.Errorf("package %s", file.Package())
	}
	var messages, rest []string
	for i := range file.Messages().Len() {
		m := file.Messages().Get(i)
		line := []string{string(m.Name())}
		for j := range m.Fields().Len() {
			f := m.Fields().Get(j)
			optional := ""
			if f.HasOptionalKeyword() {
				optional = "?"
			}
			line = append(line, fmt.Sprintf("%s=%d:%s%s", f.Name(), f.Number(), f.Kind(), optional))
		}
		messages = append(messages, strings.Join(line, " "))
	}
	slices.Sort(messages)
	for i := range file.Enums().Len() {
		e := file.Enums().Get(i)
		line := []string{string(e.Name())}
		for j := range e.Values().Len() {
			line = append(line, fmt.Sprintf("%s=%d", e.Values().Get(j).Name(), e.Values().Get(j).Number()))
		}
		rest = append(rest, strings.Join(line, " "))
	}
	var services []string
	for i := range file.Services().Len() {
		services = append(services, service(file.Services().Get(i)))
	}
	slices.Sort(services)
	got := slices.Concat(messages, rest, services)
	want := strings.Split(strings.TrimSpace(published), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("line %d is not as published:\n%s\nwant\n%s", i+1, strings.Join(got, "\n"), published)
		}
	}
}

func service(s protoreflect.ServiceDescriptor) string {
	line := []string{string(s.Name())}
	for i := range s.Methods().Len() {
		line = append(line, string(s.Methods().Get(i).Name()))
	}
	return strings.Join(line, " ")
}
