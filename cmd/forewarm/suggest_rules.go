package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/ingest"
)

// joining are the rules that make one class of several, to be put before the others: of what producers call them, and of
// what the rules in force give them.
func joining(rules []features.Rule, pool, class string, others []string) []features.Rule {
	out := []features.Rule{{Class: class, Override: true, Pool: []string{pool}, Given: others}}
	for i := range rules {
		if r := rules[i]; slices.Contains(others, r.Class) && fitsPool(&r, pool) {
			r.Class, r.Pool = class, []string{pool}
			out = append(out, r)
		}
	}
	return out
}

// dividing are the rules that make a class of a tenant's part of another.
func dividing(rules []features.Rule, pool, class, tenant, part string) []features.Rule {
	out := []features.Rule{{Class: part, Override: true, Pool: []string{pool}, Given: []string{class}, Tenant: []string{tenant}}}
	for i := range rules {
		if r := rules[i]; r.Class == class && fitsPool(&r, pool) && fitsTenant(&r, tenant) {
			r.Class, r.Pool, r.Tenant = part, []string{pool}, []string{tenant}
			out = append(out, r)
		}
	}
	return out
}

// fitsPool and fitsTenant say whether a rule is for requests of a pool, or of a tenant.
func fitsPool(r *features.Rule, pool string) bool {
	_, ok := features.NewClassifier(features.ClassifyConfig{Rules: []features.Rule{{Class: r.Class, Pool: r.Pool}}}).Class(&ingest.Request{Pool: pool})
	return ok
}

func fitsTenant(r *features.Rule, tenant string) bool {
	_, ok := features.NewClassifier(features.ClassifyConfig{Rules: []features.Rule{{Class: r.Class, Tenant: r.Tenant}}}).Class(&ingest.Request{Tenant: tenant})
	return ok
}

// rulesYAML writes rules in a line, as classify.rules takes them.
func rulesYAML(rules []features.Rule) string {
	var all []string
	for i := range rules {
		r := &rules[i]
		fields := []string{"class: " + yamlScalar(r.Class)}
		if r.Override {
			fields = append(fields, "override: true")
		}
		for _, f := range []struct {
			key      string
			patterns []string
		}{
			{"pool", r.Pool}, {"given", r.Given}, {"model", r.Model}, {"route", r.Route}, {"tenant", r.Tenant}, {"tier", r.Tier}, {"feature", r.Feature}, {"region", r.Region},
		} {
			if len(f.patterns) > 0 {
				var quoted []string
				for _, p := range f.patterns {
					quoted = append(quoted, yamlScalar(p))
				}
				fields = append(fields, f.key+": ["+strings.Join(quoted, ", ")+"]")
			}
		}
		for _, f := range []struct {
			key   string
			bound int64
		}{{"prompt_min", r.PromptMin}, {"prompt_max", r.PromptMax}} {
			if f.bound > 0 {
				fields = append(fields, fmt.Sprintf("%s: %d", f.key, f.bound))
			}
		}
		all = append(all, "{"+strings.Join(fields, ", ")+"}")
	}
	return "[" + strings.Join(all, ", ") + "]"
}

// plainScalar is text that YAML takes for itself.
var plainScalar = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// yamlScalar quotes what YAML could take for something else.
func yamlScalar(s string) string {
	if plainScalar.MatchString(s) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}, strings.ToLower(s)) {
		return s
	}
	return strconv.Quote(s)
}
