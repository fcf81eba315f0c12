package main

import (
	"flag"
	"strings"
)

// rule says which flags of a command go together. Arguments count as a flag by their name, such as TRACE.
type rule struct {
	command string
	flags   string // if one of these is given, or always if it is "",
	needs   string // one of these must be given, or
	bars    string // none of these may be given
	why     string
}

// rules are there so that no flag is ignored.
var rules = []rule{
	{"plan", "", "config from", "", "whose pool is planned"},
	{"plan", "from", "", "config trace requests-per-s", "a daemon plans with its own configuration and traffic"},
	{"plan", "trace", "", "requests-per-s", "both state the traffic"},
	{"plan", "prompt output cache-hit", "requests-per-s", "", ""},
	{"plan", "replicas prefill-replicas launch launch-prompt launch-output launch-cache-hit launch-retry ramp", "trace requests-per-s from", "", ""},
	{"backtest", "", "TRACE prometheus", "", "the traffic to run, such as forewarm backtest -report trace.html trace.csv.gz"},
	{"backtest", "prometheus", "", "TRACE bin class start only", "it takes the place of a trace"},
	{"backtest", "days until preset match", "prometheus", "", ""},
	{"backtest", "config", "", "peak-replicas warmup-p50 warmup-p90", "the configuration says what a replica is"},
	{"check", "", "config health", "", "what to check"},
	{"check", "offline", "config", "", ""},
}

// checkTogether applies the rules of the command to the flags that are given, and to its arguments.
func (c *command) checkTogether(f *flag.FlagSet, args []string) error {
	given := map[string]bool{c.argument(): len(args) > 0}
	f.Visit(func(x *flag.Flag) {
		value, ok := x.Value.(flag.Getter)
		given[x.Name] = !ok || value.Get() != "" // an empty text is as none
	})
	first := func(names string) string {
		for name := range strings.FieldsSeq(names) {
			if given[name] {
				return dashed(name)
			}
		}
		return ""
	}
	for _, r := range rules {
		flag, needed, barred := first(r.flags), first(r.needs), first(r.bars)
		switch {
		case r.command != c.name || r.flags != "" && flag == "":
		case barred != "":
			return usagef("%s does not go with %s, because %s: leave one of them out", flag, barred, r.why)
		case r.needs == "" || needed != "":
		case r.flags == "":
			return usagef("give %s: %s", dashed(r.needs), r.why)
		default:
			return usagef("%s needs %s: add that, or leave %[1]s out", flag, dashed(r.needs))
		}
	}
	return nil
}

// dashed is names of flags and arguments as they are typed: "-trace or -from".
func dashed(names string) string {
	all := strings.Fields(names)
	for i, name := range all {
		if name != strings.ToUpper(name) {
			all[i] = "-" + name
		}
	}
	return strings.Join(all, " or ")
}
