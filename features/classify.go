package features

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/forewarm/forewarm/ingest"
)

// MaxRules is the most classify rules there can be.
const MaxRules = 256

// ClassifyConfig configures classes for requests without one from their producer.
type ClassifyConfig struct {
	// Rules are tried in order. The first match wins.
	Rules []Rule `yaml:"rules"`
}

// Rule gives its class to requests that meet all its conditions. A label meets a list if it matches any of its
// patterns; every label meets an empty list. In a pattern, * matches any text, also none, and ? matches one character.
// The pattern "" matches an absent label.
type Rule struct {
	Class string `yaml:"class"`

	Pool    []string `yaml:"pool"`
	Model   []string `yaml:"model"`
	Route   []string `yaml:"route"`
	Tenant  []string `yaml:"tenant"`
	Tier    []string `yaml:"tier"`
	Feature []string `yaml:"feature"`
	Region  []string `yaml:"region"`
	// Given is the class that the producer gave: with Override, to divide such a class or to join several.
	Given []string `yaml:"given"`

	// Bounds of the prompt in tokens, both included; 0 is none. A prompt of unknown length is within no bounds.
	PromptMin int64 `yaml:"prompt_min"`
	PromptMax int64 `yaml:"prompt_max"`

	// Override applies the rule to requests that have a class too.
	Override bool `yaml:"override"`
}

// Class is the class that the rules give a request; false when none matches. It depends only on the request.
// O(rules × patterns).
func (c *ClassifyConfig) Class(r *ingest.Request) (string, bool) {
	for i := range c.Rules {
		if x := &c.Rules[i]; (r.Class == "" || x.Override) && x.fits(r) {
			return x.Class, true
		}
	}
	return "", false
}

func (r *Rule) fits(q *ingest.Request) bool {
	n := q.PromptTokens
	length := r.PromptMin == 0 && r.PromptMax == 0 || n >= 0 && n >= r.PromptMin && (r.PromptMax == 0 || n <= r.PromptMax)
	return length && fitsAny(r.Pool, q.Pool) && fitsAny(r.Model, q.Model) && fitsAny(r.Route, q.Route) && fitsAny(r.Tenant, q.Tenant) &&
		fitsAny(r.Tier, q.Tier) && fitsAny(r.Feature, q.Feature) && fitsAny(r.Region, q.Region) && fitsAny(r.Given, q.Class)
}

func fitsAny(patterns []string, label string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return fits(p, label) })
}

// fits reports whether a pattern with * (any text) and ? (any one character) matches all of a value. O(pattern × value)
// at worst: only the last * is retried.
func fits(pattern, value string) bool {
	star, tried := -1, 0 // index of the last *, and the end of its text in value
	p, v := 0, 0
	for v < len(value) {
		_, width := utf8.DecodeRuneInString(value[v:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, tried = p, v
			p++
		case p < len(pattern) && pattern[p] == '?':
			p++
			v += width
		case p < len(pattern) && pattern[p] == value[v]:
			p++
			v++
		case star >= 0:
			_, width = utf8.DecodeRuneInString(value[tried:])
			tried += width
			p, v = star+1, tried
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// Check calls report for each rule that can have no effect or is contradictory: with its position, a field as in YAML (""
// for the rule as a whole), the field's value (nil when it is left out), what it must be, and a fix.
func (c *ClassifyConfig) Check(report func(rule int, field string, value any, bound, fix string)) {
	label := ingest.DefaultLimits().LabelBytes
	caught, caughtOverride := -1, false // the rule that matches every request, so that later ones have no effect
	for i := range c.Rules {
		r := &c.Rules[i]
		fail := func(field string, value any, bound, fix string) {
			report(i, field, value, bound, fix)
		}
		switch {
		case i == MaxRules:
			fail("", nil, fmt.Sprintf("must be left out: there can be %d rules", MaxRules), "join rules of one class with lists of patterns")
			return
		case r.Class == "":
			fail("class", nil, "must name the class that the rule gives", "")
		case r.Class == TotalClass || r.Class == OverflowClass:
			fail("class", r.Class, "must not be one of the reserved names "+TotalClass+" and "+OverflowClass, "choose another name")
		case len(r.Class) > label:
			fail("class", r.Class, fmt.Sprintf("must have at most %d bytes", label), "")
		case strings.ContainsFunc(r.Class, func(c rune) bool { return c < ' ' || c == 0x7f }):
			fail("class", r.Class, "must have no control characters", "")
		}
		switch {
		case r.PromptMin < 0:
			fail("prompt_min", r.PromptMin, "must not be negative", "leave it out for no bound")
		case r.PromptMax < 0:
			fail("prompt_max", r.PromptMax, "must not be negative", "leave it out for no bound")
		case r.PromptMax > 0 && r.PromptMax < r.PromptMin:
			fail("prompt_max", r.PromptMax, fmt.Sprintf("must be at least prompt_min %d", r.PromptMin), "both are included")
		}
		if caught >= 0 && (caughtOverride || !r.Override) {
			fail("", nil, fmt.Sprintf("is never reached: the rule of class %q before it fits every request", c.Rules[caught].Class),
				"put the rule without conditions last")
		}
		if r.unconditional() && (caught < 0 || r.Override && !caughtOverride) {
			caught, caughtOverride = i, r.Override
		}
	}
}

// unconditional reports whether a rule matches every request.
func (r *Rule) unconditional() bool {
	conditions := [...][]string{r.Pool, r.Model, r.Route, r.Tenant, r.Tier, r.Feature, r.Region, r.Given}
	for _, patterns := range conditions {
		if len(patterns) > 0 {
			return false
		}
	}
	return r.PromptMin == 0 && r.PromptMax == 0
}
