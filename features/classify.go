package features

import (
	"math/bits"

	"github.com/forewarm/forewarm/ingest"
)

// MaxRules is the most classify rules there can be.
const MaxRules = 256

// ClassifyConfig says how requests get a class that their producer did not give them.
type ClassifyConfig struct {
	// Rules are tried in order, the first that fits wins.
	Rules []Rule `yaml:"rules"`
}

// Rule gives its class to requests that meet all its conditions. A list is met by a label that any of its patterns fits,
// an empty list by all. In a pattern * stands for any text, also none, and ? for any one character; the pattern "" fits
// a label that is absent.
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

// The labels that rules can look at.
const (
	labelPool = iota
	labelModel
	labelRoute
	labelTenant
	labelTier
	labelFeature
	labelRegion
	labelGiven
	labelCount
)

func (r *Rule) patterns() [labelCount][]string {
	return [...][]string{r.Pool, r.Model, r.Route, r.Tenant, r.Tier, r.Feature, r.Region, r.Given}
}

func labelOf(r *ingest.Request, label int) string {
	switch label {
	case labelPool:
		return r.Pool
	case labelModel:
		return r.Model
	case labelRoute:
		return r.Route
	case labelTenant:
		return r.Tenant
	case labelTier:
		return r.Tier
	case labelFeature:
		return r.Feature
	case labelGiven:
		return r.Class
	}
	return r.Region
}

// Classifier applies rules. What a request's class is depends on the request alone. A Classifier must not be used by two
// goroutines at once.
type Classifier struct {
	rules     []Rule
	all       ruleSet
	overrides ruleSet
	labels    []labelRules // those that some rule looks at
}

// ruleSet is a set of rules by position.
type ruleSet [MaxRules / 64]uint64

func (s *ruleSet) add(i int) { s[i/64] |= 1 << (i % 64) }
func (s *ruleSet) intersect(o ruleSet) {
	for i := range s {
		s[i] &= o[i]
	}
}

// NewClassifier compiles the rules. [ClassifyConfig.Check] says what is wrong with them; of too many the last are left
// out.
func NewClassifier(cfg ClassifyConfig) *Classifier {
	c := &Classifier{rules: cfg.Rules[:min(len(cfg.Rules), MaxRules)]}
	for i := range c.rules {
		c.all.add(i)
		if c.rules[i].Override {
			c.overrides.add(i)
		}
	}
	for label := range labelCount {
		if l := newLabelRules(label, c.rules); l.looked {
			c.labels = append(c.labels, l)
		}
	}
	return c
}

// Class is the class that the rules give a request; false when none fits. It costs a look-up for each label that rules
// look at, whatever their number, and allocates nothing for labels that were met before.
func (c *Classifier) Class(r *ingest.Request) (string, bool) {
	fit := c.all
	if r.Class != "" {
		fit = c.overrides
	}
	if fit == (ruleSet{}) {
		return "", false
	}
	for i := range c.labels {
		fit.intersect(c.labels[i].fitting(labelOf(r, c.labels[i].label)))
	}
	for word, set := range fit {
		for ; set != 0; set &= set - 1 {
			if x := &c.rules[64*word+bits.TrailingZeros64(set)]; x.holds(r.PromptTokens) {
				return x.Class, true
			}
		}
	}
	return "", false
}

func (r *Rule) holds(prompt int64) bool {
	if r.PromptMin == 0 && r.PromptMax == 0 {
		return true
	}
	return prompt >= 0 && prompt >= r.PromptMin && (r.PromptMax == 0 || prompt <= r.PromptMax)
}

// maxRemembered is how many values of one label are remembered with the rules that they fit; all are forgotten when
// there are more. It is a matter of speed alone.
const maxRemembered = 4096

// labelRules knows which rules a value of one label fits.
type labelRules struct {
	label    int
	looked   bool      // some rule has a condition
	others   ruleSet   // rules without a condition
	patterns []pattern // by rule

	last   string
	newest ruleSet // fitting last
	known  map[string]ruleSet
}

type pattern struct {
	rule int
	text string
}

func newLabelRules(label int, rules []Rule) labelRules {
	l := labelRules{label: label, known: map[string]ruleSet{}}
	for i := range rules {
		texts := rules[i].patterns()[label]
		if len(texts) == 0 {
			l.others.add(i)
		}
		for _, text := range texts {
			l.looked = true
			l.patterns = append(l.patterns, pattern{i, text})
		}
	}
	l.newest = l.match("")
	return l
}

func (l *labelRules) fitting(value string) ruleSet {
	if value == l.last {
		return l.newest
	}
	set, ok := l.known[value]
	if !ok {
		if len(l.known) >= maxRemembered {
			clear(l.known)
		}
		set = l.match(value)
		l.known[value] = set
	}
	l.last, l.newest = value, set
	return set
}

func (l *labelRules) match(value string) ruleSet {
	set := l.others
	for _, p := range l.patterns {
		if fits(p.text, value) {
			set.add(p.rule)
		}
	}
	return set
}
