package features

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/forewarm/forewarm/ingest"
)

func TestClass(t *testing.T) {
	c := ClassifyConfig{Rules: []Rule{
		{Class: "forced", Tenant: []string{"vip-*"}, Override: true},
		{Class: "agent-long", Route: []string{"/v1/agents/*"}, PromptMin: 1000},
		{Class: "agent", Route: []string{"/v1/agents/*", "/agents"}},
		{Class: "eu-small", Region: []string{"eu-*"}, Model: []string{"*-8b", "tiny"}, PromptMax: 500},
		{Class: "nobody", Tenant: []string{""}, Tier: []string{"batch"}},
		{Class: "search", Feature: []string{"search"}, Pool: []string{"p*"}},
		{Class: "rare", Given: []string{"eval", "translate-*"}, Override: true},
	}}
	with := func(f func(*ingest.Request)) *ingest.Request {
		return changed(request("", 0), ofClass(""), f)
	}
	tests := map[string]struct {
		r    *ingest.Request
		want string
	}{
		"no rule matches":      {with(func(r *ingest.Request) {}), ""},
		"by prompt":            {with(func(r *ingest.Request) { r.Route, r.PromptTokens = "/v1/agents/run", 1000 }), "agent-long"},
		"prompt too short":     {with(func(r *ingest.Request) { r.Route, r.PromptTokens = "/v1/agents/run", 999 }), "agent"},
		"prompt unknown":       {with(func(r *ingest.Request) { r.Route, r.PromptTokens = "/v1/agents/run", ingest.Unknown }), "agent"},
		"another pattern":      {with(func(r *ingest.Request) { r.Route = "/agents" }), "agent"},
		"two labels":           {with(func(r *ingest.Request) { r.Region, r.Model = "eu-1", "llama-8b" }), "eu-small"},
		"one of two labels":    {with(func(r *ingest.Request) { r.Region = "eu-1" }), ""},
		"prompt too long":      {with(func(r *ingest.Request) { r.Region, r.Model, r.PromptTokens = "eu-1", "tiny", 501 }), ""},
		"unknown is not short": {with(func(r *ingest.Request) { r.Region, r.Model, r.PromptTokens = "eu-1", "tiny", ingest.Unknown }), ""},
		"absent label":         {with(func(r *ingest.Request) { r.Tier = "batch" }), "nobody"},
		"label not absent":     {with(func(r *ingest.Request) { r.Tier, r.Tenant = "batch", "x" }), ""},
		"pool and feature":     {with(func(r *ingest.Request) { r.Feature = "search" }), "search"},
		"override":             {with(func(r *ingest.Request) { r.Class, r.Tenant = "chat", "vip-1" }), "forced"},
		"given, joined":        {with(func(r *ingest.Request) { r.Class = "translate-de" }), "rare"},
		"given, another":       {with(func(r *ingest.Request) { r.Class = "evaluate" }), ""},
		"no override":          {with(func(r *ingest.Request) { r.Class, r.Route = "chat", "/agents" }), ""},
	}
	for name, x := range tests {
		got, ok := c.Class(x.r)
		if got != x.want || ok != (x.want != "") {
			t.Errorf("%s: %q %t, want %q", name, got, ok, x.want)
		}
	}
}

func TestFits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := []rune("ab*é")
		pattern := string(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 8).Draw(t, "pattern"))
		value := string(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 12).Draw(t, "value"))
		expression := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)
		if want := regexp.MustCompile(`^(?s:` + expression + `)$`).MatchString(value); fits(pattern, value) != want {
			t.Fatalf("%q fits %q: %t, want %t", pattern, value, !want, want)
		}
	})
}

func TestClassifyCheck(t *testing.T) {
	model := []string{"m"}
	tests := map[string]struct {
		rules []Rule
		want  []string // rule and field
	}{
		"fine":                    {[]Rule{{Class: "a", Model: model, PromptMin: 5, PromptMax: 5}, {Class: "b"}, {Class: "c", Override: true}}, nil},
		"no class":                {[]Rule{{Model: model}}, []string{"0 class"}},
		"reserved class":          {[]Rule{{Class: TotalClass, Model: model}, {Class: OverflowClass}}, []string{"0 class", "1 class"}},
		"long class":              {[]Rule{{Class: strings.Repeat("x", 300)}}, []string{"0 class"}},
		"class with a line break": {[]Rule{{Class: "a\nb"}}, []string{"0 class"}},
		"bounds":                  {[]Rule{{Class: "a", PromptMin: -1}, {Class: "a", PromptMax: -1}, {Class: "a", PromptMin: 2, PromptMax: 1}}, []string{"0 prompt_min", "1 prompt_max", "2 prompt_max"}},
		"too many":                {make([]Rule, MaxRules+5), nil},
	}
	for name, x := range tests {
		var got []string
		for i := range x.rules {
			if name == "too many" {
				x.rules[i] = Rule{Class: fmt.Sprint(i), Model: model}
			}
		}
		if name == "too many" {
			x.want = []string{fmt.Sprint(MaxRules, " ")}
		}
		cfg := ClassifyConfig{Rules: x.rules}
		cfg.Check(func(rule int, field string, _ any, _, _ string) { got = append(got, fmt.Sprint(rule, " ", field)) })
		if diff := cmp.Diff(x.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func BenchmarkClassifier(b *testing.B) {
	var rules []Rule
	for i := range 40 {
		rules = append(rules, Rule{Class: fmt.Sprint("c", i), Model: []string{fmt.Sprintf("model-%d-*", i)}, Tenant: []string{fmt.Sprintf("*-%d", i), "x*y*z"}, PromptMin: int64(i)})
	}
	c := ClassifyConfig{Rules: rules}
	requests := make([]*ingest.Request, 1000)
	for i := range requests {
		requests[i] = changed(request("", 0), ofClass(""))
		requests[i].Model, requests[i].Tenant = fmt.Sprintf("model-%d-it", i*31%50), fmt.Sprintf("tenant-%d", i*17%50)
	}
	b.ReportAllocs()
	for i := range b.N {
		c.Class(requests[i%len(requests)])
	}
}
