package pluginpb

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// published are the fields of the planner's contract that Forewarm uses: name, number and type. They are from
// plugin.proto of ai-dynamo/dynamo, protocol version 1.0.
const published = `
AcceptResult
BootstrapRequest
BootstrapResponse ok=1:bool
ComponentTarget sub_component_type=1:string replicas=3:int32? type=4:enum
OverrideResult targets=1:message reason=2:string
ProposeStageRequest
ProposeStageResponse accept=1:message override=2:message
ResetRequest
ResetResponse ok=1:bool
OverrideType SET=0 AT_LEAST=1 AT_MOST=2
PluginLifecycle Bootstrap Reset
ProposePlugin Propose
`

// TestContract: the schema that Forewarm uses is the published one.
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
		s := file.Services().Get(i)
		line := []string{string(s.Name())}
		for j := range s.Methods().Len() {
			line = append(line, string(s.Methods().Get(j).Name()))
		}
		services = append(services, strings.Join(line, " "))
	}
	slices.Sort(services)
	got := slices.Concat(messages, rest, services)
	want := strings.Split(strings.TrimSpace(published), "\n")
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("line %d differs:\n%s\nwant\n%s", i+1, strings.Join(got, "\n"), published)
		}
	}
}
