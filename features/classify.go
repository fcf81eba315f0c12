package features

import (
	"fmt"
	"slices"
	"strings"

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
// patterns; every label meets an empty list. In a pattern, * matches any text, also none. The pattern "" matches
// an absent label.
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
	return length &&
		fitsAny(r.Pool, q.Pool) && fitsAny(r.Model, q.Model) && fitsAny(r.Route, q.Route) && fitsAny(r.Tenant, q.Tenant) &&
		fitsAny(r.Tier, q.Tier) && fitsAny(r.Feature, q.Feature) && fitsAny(r.Region, q.Region) && fitsAny(r.Given, q.Class)
}

func fitsAny(patterns []string, label string) bool {
	return len(patterns) == 0 || slices.ContainsFunc(patterns, func(p string) bool { return fits(p, label) })
}

// fits reports whether a pattern with * (any text) matches all of a value.
func fits(pattern, value string) bool {
	begin, pattern, wild := strings.Cut(pattern, "*")
	rest, ok := strings.CutPrefix(value, begin)
	if !wild || !ok {
		return ok && rest == ""
	}
	for {
		var next string
		if next, pattern, wild = strings.Cut(pattern, "*"); !wild {
			return strings.HasSuffix(rest, next)
		}
		if _, rest, ok = strings.Cut(rest, next); !ok {
			return false
		}
	}
}

// Check calls report for each rule that can have no effect: with its position, a field as in YAML ("" for the rule as a
// whole), the field's value (nil when it is left out), what it must be, and a fix.
func (c *ClassifyConfig) Check(report func(rule int, field string, value any, bound, fix string)) {
	label := ingest.DefaultLimits().LabelBytes
	for i := range c.Rules {
		r := &c.Rules[i]
		switch {
		case i == MaxRules:
			report(i, "", nil, fmt.Sprintf("must be left out: there can be %d rules", MaxRules), "join rules of one class with lists of patterns")
			return
		case r.Class == "":
			report(i, "class", nil, "must name the class that the rule gives", "")
		case r.Class == TotalClass || r.Class == OverflowClass:
			report(i, "class", r.Class, "must not be one of the reserved names "+TotalClass+" and "+OverflowClass, "choose another name")
		case len(r.Class) > label || strings.ContainsFunc(r.Class, func(c rune) bool { return c < ' ' || c == 0x7f }):
			report(i, "class", r.Class, fmt.Sprintf("must have at most %d bytes, and no control characters", label), "")
		}
		if !r.Override && !fitsAny(r.Given, "") {
			report(i, "override", false, "must be true in a rule with given", "without it a rule is for requests without a class")
		}
		switch {
		case r.PromptMin < 0:
			report(i, "prompt_min", r.PromptMin, "must not be negative", "leave it out for no bound")
		case r.PromptMax < 0 || r.PromptMax > 0 && r.PromptMax < r.PromptMin:
			bound := fmt.Sprintf("must be at least prompt_min %d, and not negative", r.PromptMin)
			report(i, "prompt_max", r.PromptMax, bound, "both are included; leave one out for no bound")
		}
	}
}
