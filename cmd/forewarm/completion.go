package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// completions are scripts for shells. They call forewarm for the candidates, see printCandidates.
var completions = map[string]string{
	"bash": `# Completion of forewarm in bash: source <(forewarm completion bash)
_forewarm() {
    local IFS=$'\n' command=
    [ "$COMP_CWORD" -gt 1 ] && command=${COMP_WORDS[1]}
    COMPREPLY=($(forewarm completion -of "$command" -- "${COMP_WORDS[COMP_CWORD]}" | cut -f1))
}
complete -o default -F _forewarm forewarm
`,
	"zsh": `#compdef forewarm
# Completion of forewarm in zsh: source <(forewarm completion zsh), or this as a file _forewarm in $fpath
_forewarm() {
    local command=
    (( CURRENT > 2 )) && command=$words[2]
    local -a lines=("${(@f)$(forewarm completion -of "$command" -- "$words[CURRENT]")}")
    lines=("${(@)lines//$'\t'/:}")
    if [[ -n "$lines" ]]; then _describe forewarm lines; else _files; fi
}
if [ "$funcstack[1]" = _forewarm ]; then _forewarm; else compdef _forewarm forewarm; fi
`,
	"fish": `# Completion of forewarm in fish: forewarm completion fish | source
function __forewarm
    set -l words (commandline -opc) ''
    forewarm completion -of "$words[2]" -- (commandline -ct)
end
complete -c forewarm -f -n __fish_use_subcommand
complete -c forewarm -a '(__forewarm)'
`,
}

// completion prints a shell script that completes commands and their flags.
func completion(f *flag.FlagSet) action {
	asked, of := false, ""
	f.Func("of", "print the flags of a `command` that begin with the argument, or commands where it is empty; the scripts ask this", func(s string) error {
		asked, of = true, s
		return nil
	})
	return func(_ context.Context, args []string, std streams) error {
		word := strings.Join(args, "")
		if asked {
			printCandidates(std.out, of, word)
			return nil
		}
		if completions[word] == "" {
			return usagef("name one shell, bash, zsh or fish, for example: source <(forewarm completion bash)")
		}
		_, err := io.WriteString(std.out, completions[word])
		return err
	}
}

// printCandidates prints completions of a word, one per line, each with a description after a tab. It prints nothing if
// a file name is possible.
func printCandidates(w io.Writer, of, word string) {
	candidate := func(name, about string) {
		if strings.HasPrefix(name, word) {
			fmt.Fprintf(w, "%s\t%s\n", name, about)
		}
	}
	for _, c := range commands() {
		switch {
		case of == "":
			candidate(c.name, c.summary)
		case of == c.name && strings.HasPrefix(word, "-"):
			f := flag.NewFlagSet(c.name, flag.ContinueOnError)
			c.define(f)
			f.VisitAll(func(f *flag.Flag) {
				_, usage := flag.UnquoteUsage(f)
				candidate("-"+f.Name, usage)
			})
		}
	}
	switch of {
	case "":
		candidate("help", "list the commands")
	case "completion":
		for _, shell := range []string{"bash", "zsh", "fish"} {
			candidate(shell, "")
		}
	}
}
