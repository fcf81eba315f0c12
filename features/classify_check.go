package features

import (
	"fmt"
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// RuleError is what is wrong with a classify rule.
type RuleError struct {
	Rule  int    // position in ClassifyConfig.Rules
	Class string // of the rule
	Field string // of the rule, as in YAML; "" for the rule as a whole
	Value any    // of the field; nil when it is left out
	Bound string // what it must be
	Mend  string
}

// Error implements error.
func (e *RuleError) Error() string {
	return strings.TrimSuffix(fmt.Sprintf("rule %d (class %q): %s %s", e.Rule+1, e.Class, e.Field, e.Bound), " ")
}

// Check finds rules that can have no effect or are contradictory.
func (c *ClassifyConfig) Check() []*RuleError {
	var errs []*RuleError
	label := ingest.DefaultLimits().LabelBytes
	caught, caughtOverride := -1, false // the rule that matches every request, so that later ones have no effect
	for i := range c.Rules {
		r := &c.Rules[i]
		fail := func(field string, value any, bound, mend string) {
			errs = append(errs, &RuleError{Rule: i, Class: r.Class, Field: field, Value: value, Bound: bound, Mend: mend})
		}
		switch {
		case i == MaxRules:
			fail("", nil, fmt.Sprintf("must be left out: there can be %d rules", MaxRules), "join rules of one class with lists of patterns")
			return errs
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
	return errs
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
