package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// completions are scripts for shells. For the candidates a shell calls forewarm with its line in COMP_LINE.
var completions = map[string]string{
	"bash": "# source <(forewarm completion bash)\ncomplete -o default -C forewarm forewarm\n",
	"zsh":  "# source <(forewarm completion zsh)\nautoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C forewarm forewarm\n",
	"fish": "# forewarm completion fish | source\ncomplete -c forewarm -a '(env COMP_LINE=(commandline -cp) forewarm)'\n",
}

// completion prints a shell script that completes commands and their flags.
func completion(*flag.FlagSet) action {
	return func(_ context.Context, args []string, std streams) error {
		script := completions[strings.Join(args, "")]
		if script == "" {
			return usagef("name one shell, bash, zsh or fish, for example: source <(forewarm completion bash)")
		}
		_, err := io.WriteString(std.out, script)
		return err
	}
}

// printCandidates prints what the last of the words of a line may be, one per line. It prints nothing if a file name is
// possible.
func printCandidates(w io.Writer, words []string) {
	last, all := words[len(words)-1], []string{}
	for _, c := range commands() {
		switch {
		case len(words) < 3:
			all = append(all, c.name)
		case c.name == words[1] && strings.HasPrefix(last, "-"):
			f := flag.NewFlagSet(c.name, flag.ContinueOnError)
			c.define(f)
			f.VisitAll(func(f *flag.Flag) { all = append(all, "-"+f.Name) })
		case c.name == words[1] && c.name == "completion":
			all = slices.Collect(maps.Keys(completions))
		}
	}
	for _, word := range all {
		if strings.HasPrefix(word, last) {
			fmt.Fprintln(w, word)
		}
	}
}
