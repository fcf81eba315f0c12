package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// completions are scripts for shells, with the name %[1]s and path %[2]s of this program. For the candidates a shell
// calls it with its line in COMP_LINE.
var completions = map[string]string{
	"bash": "# source <(%[2]s completion bash)\ncomplete -o default -C '%[2]s' '%[1]s'\n",
	"zsh":  "# source <(%[2]s completion zsh)\nautoload -U +X bashcompinit && bashcompinit\ncomplete -o default -C '%[2]s' '%[1]s'\n",
	"fish": "# %[2]s completion fish | source\ncomplete -c '%[1]s' -a \"(env COMP_LINE=(commandline -cp) '%[2]s')\"\n",
}

// completion prints a shell script that completes commands and their flags.
func completion(*flag.FlagSet) action {
	return func(_ context.Context, args []string, std streams) error {
		script := completions[strings.Join(args, "")]
		if script == "" {
			return usagef("name one shell, bash, zsh or fish, for example: source <(forewarm completion bash)")
		}
		path, err := os.Executable()
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.out, script, filepath.Base(os.Args[0]), path)
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
			f.VisitAll(func(x *flag.Flag) { all = append(all, "-"+x.Name) })
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
