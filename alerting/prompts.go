package alerting

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/forewarm/forewarm/features"
	"github.com/forewarm/forewarm/features/sketch"
)

const (
	promptClasses  = 64               // tracked per pool: those with the most prompt tokens
	promptBlock    = 200              // prompts per 99th percentile
	promptNow      = 10 * time.Minute // time constant of the present length
	promptUsual    = 24 * time.Hour   // time constant of the usual length
	promptKnown    = time.Hour        // of prompts before growth is computed
	promptGrowth   = 2                // alert threshold: multiple of the usual 99th percentile
	promptNear     = 0.9              // alert threshold: share of the longest prompt a replica accepts
	promptShare    = 0.1              // of the pool's prompt tokens from which a class counts
	promptsNamed   = 3                // classes in an alert
	promptFadesOut = 0.8              // of the thresholds; a firing alert stays active above it
)

// Prompts are the prompt lengths of a pool's classes, by name; at most [promptClasses].
type Prompts []PromptTrend

// PromptTrend is the 99th percentile of a class's prompt lengths, over blocks of prompts so that its bias does not depend on
// the rate. Lengths are logarithms to base 2.
type PromptTrend struct {
	_ struct{} `cbor:",toarray"`

	Class      string
	Now, Usual float64          // running means with time constants promptNow and promptUsual
	Known      float64          // minutes of prompts in Usual, up to promptUsual
	Tokens     float64          // prompt tokens a minute, with time constant promptUsual/24
	At         int64            // newest minute since 1970
	From       int64            // first minute of Block
	Block      *sketch.Quantile // of lengths, not yet in the means
	Tenant     string           // with most of the class's tokens; "" if unknown
	Share      float64          // of the tokens that Tenant has
}

// Observe adds the settled windows of a pool. It changes the slice of p.
func (p *Prompts) Observe(pool string, windows []features.Window) {
	for i := range windows {
		w := &windows[i]
		if w.Pool != pool || !w.Settled || w.Prompt == nil || w.Prompt.Count() == 0 {
			continue
		}
		at, found := slices.BinarySearchFunc(*p, w.Class, func(t PromptTrend, class string) int { return strings.Compare(t.Class, class) })
		if !found {
			*p = slices.Insert(*p, at, PromptTrend{Class: w.Class, At: w.Start.Unix() / 60, From: w.Start.Unix() / 60})
		}
		(*p)[at].add(w)
		if len(*p) > promptClasses {
			least := 0
			for i := range *p {
				if (*p)[i].Tokens < (*p)[least].Tokens {
					least = i
				}
			}
			*p = slices.Delete(*p, least, least+1)
		}
	}
}

func (t *PromptTrend) add(w *features.Window) {
	minute := w.Start.Unix() / 60
	const memory = float64(promptUsual/time.Minute) / 24
	t.Tokens *= math.Exp(-float64(max(minute-t.At, 0)) / memory)
	t.Tokens += w.PromptTokens / memory
	t.At = max(t.At, minute)
	if t.Block == nil {
		t.Block = &sketch.Quantile{}
	}
	t.Block.Merge(w.Prompt)
	if name, share, _ := w.Tenants.First(); name != "" {
		t.Tenant, t.Share = name, share
	}
	if t.Block.Count() < promptBlock {
		return
	}
	x := math.Log2(max(t.Block.Quantile(.99), 1))
	minutes := float64(minute-t.From) + 1
	t.Block, t.From = nil, minute+1
	t.Known = min(t.Known+minutes, promptUsual.Minutes())
	t.Usual += max(1-math.Exp(-minutes/promptUsual.Minutes()), minutes/t.Known) * (x - t.Usual)
	t.Now += max(1-math.Exp(-minutes/promptNow.Minutes()), minutes/t.Known) * (x - t.Now)
}

// Length is the 99th percentile of the class's prompts now, in tokens; NaN before the first block.
func (t *PromptTrend) Length() float64 {
	if t.Known == 0 {
		return math.NaN()
	}
	return math.Exp2(t.Now)
}

// Growth is Length divided by the usual length; NaN before an hour of prompts is known.
func (t *PromptTrend) Growth() float64 {
	if t.Known < promptKnown.Minutes() {
		return math.NaN()
	}
	return math.Exp2(t.Now - t.Usual)
}

// Condition is the warning that prompts grow without bound: the 99th percentile of a large class is near longest (the
// longest prompt that a replica accepts; 0 if unknown), or twice the usual one. nil otherwise.
func (p Prompts) Condition(d *Decision, longest float64, cfg Config) []Condition {
	total := 0.0
	for i := range p {
		total += p[i].Tokens
	}
	var texts []string
	first, fading := "", true
	list := slices.SortedStableFunc(slices.Values(p), func(a, b PromptTrend) int { return cmp.Compare(b.Tokens, a.Tokens) })
	for i := range list {
		t := &list[i]
		over, grown := finite(t.Length()/longest/promptNear), finite(t.Growth()/promptGrowth)
		if t.Tokens < promptShare*total || max(over, grown) < promptFadesOut {
			continue
		}
		fading = fading && max(over, grown) < 1
		who := "class " + t.Class
		if t.Tenant != "" {
			who += ", tenant " + t.Tenant + portion(t.Share, 0, 0)
		}
		text := fmt.Sprintf("One in a hundred prompts of %s has %s tokens or more", who, amount(t.Length()))
		if grown >= promptFadesOut {
			text += fmt.Sprintf(", %.1f times what it was in the last day", t.Growth())
		}
		if over >= promptFadesOut {
			text += fmt.Sprintf("; a replica takes at most %s", amount(longest))
		}
		text += "."
		if texts = append(texts, text); first == "" {
			first = t.Class
		}
	}
	if len(texts) == 0 {
		return nil
	}
	if more := len(texts) - promptsNamed; more > 0 {
		texts = append(texts[:promptsNamed], fmt.Sprintf("So do %d more classes.", more))
	}
	c := condition(d, UnboundedPrompts, features.DimPrefill, Warning, cfg, words{
		Summary:     "prompts of class " + shorten(first, maxName) + " grow without a bound",
		Description: "Long prompts take more and more KV memory, until requests are refused.",
		Action:      "Limit the length of prompts in the product or at the gateway.",
	}.and(texts...))
	c.Class, c.Fading = first, fading
	return []Condition{c}
}
