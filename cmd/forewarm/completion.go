package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
)

// shells are the arguments of completion.
var shells = map[string]func(io.Writer, []completed){"bash": completeBash, "zsh": completeZsh, "fish": completeFish}

// completion prints a script by which a shell completes commands and their flags.
func completion(ctx context.Context, args []string, std streams) error {
	f := flag.NewFlagSet("completion", flag.ContinueOnError)
	rest, err := parse(f, args, std)
	if err != nil {
		return err
	}
	if len(rest) != 1 || shells[rest[0]] == nil {
		return usagef("name one shell, bash, zsh or fish, for example: source <(forewarm completion bash)")
	}
	shells[rest[0]](std.out, completedCommands(ctx))
	return nil
}

// completed is a command and its flags.
type completed struct {
	name, summary string
	flags         []*flag.Flag
	words         string // other arguments than files
}

// completedCommands asks each command for its flags.
func completedCommands(ctx context.Context) (all []completed) {
	for _, c := range commands() {
		x := completed{name: c.name, summary: c.summary}
		_ = c.run(ctx, nil, streams{out: io.Discard, err: io.Discard, flags: func(f *flag.FlagSet) { // it ends there
			f.VisitAll(func(f *flag.Flag) { x.flags = append(x.flags, f) })
		}})
		if c.name == "completion" {
			x.words = "bash zsh fish"
		}
		all = append(all, x)
	}
	return append(all, completed{name: "help", summary: "list the commands"})
}

// takesFile says whether the value of a flag is a path; takesNone that it has no value.
func takesFile(f *flag.Flag) bool {
	value, _ := flag.UnquoteUsage(f)
	return value == "file" || value == "directory"
}

func takesNone(f *flag.Flag) bool {
	b, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// quoted is text within single quotes of a shell, without the marks that zsh gives a meaning to.
func quoted(s string) string {
	return "'" + strings.NewReplacer("'", `'\''`, "[", "(", "]", ")", ":", ";", "`", "", "\\", "/").Replace(s) + "'"
}

func completeBash(w io.Writer, all []completed) {
	fmt.Fprint(w, `# Completion of forewarm in bash: source <(forewarm completion bash)
_forewarm() {
    local flags= words= cur=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
`)
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].name
	}
	fmt.Fprintf(w, "        COMPREPLY=($(compgen -W %s -- \"$cur\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n", quoted(strings.Join(names, " ")))
	for _, c := range all {
		flags := make([]string, len(c.flags))
		for i, f := range c.flags {
			flags[i] = "-" + f.Name
		}
		fmt.Fprintf(w, "    %s) flags=%s words=%s ;;\n", c.name, quoted(strings.Join(flags, " ")), quoted(c.words))
	}
	fmt.Fprint(w, `    esac
    case $cur in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$cur")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
    esac
}
complete -o default -F _forewarm forewarm
`)
}

func completeZsh(w io.Writer, all []completed) {
	fmt.Fprint(w, "#compdef forewarm\n# Completion of forewarm in zsh: source <(forewarm completion zsh), or this as a file _forewarm in $fpath\n_forewarm() {\n  if (( CURRENT == 2 )); then\n    local -a commands=(\n")
	for _, c := range all {
		fmt.Fprintf(w, "      %s:%s\n", c.name, quoted(c.summary))
	}
	fmt.Fprint(w, "    )\n    _describe command commands\n    return\n  fi\n  shift words\n  (( CURRENT-- ))\n  case $words[1] in\n")
	for _, c := range all {
		fmt.Fprintf(w, "  %s) _arguments", c.name)
		for _, f := range c.flags {
			value, usage := flag.UnquoteUsage(f)
			spec := "-" + f.Name + "[" + strings.Trim(quoted(usage), "'") + "]"
			if takesFile(f) {
				spec += ":" + value + ":_files"
			} else if !takesNone(f) {
				spec += ":" + value + ":"
			}
			fmt.Fprintf(w, " \\\n    '%s'", spec)
		}
		if c.words != "" {
			fmt.Fprintf(w, " ':argument:(%s)' ;;\n", c.words)
		} else {
			fmt.Fprint(w, " '*:file:_files' ;;\n")
		}
	}
	fmt.Fprint(w, "  esac\n}\nif [ \"$funcstack[1]\" = _forewarm ]; then _forewarm; else compdef _forewarm forewarm; fi\n")
}

func completeFish(w io.Writer, all []completed) {
	fmt.Fprint(w, "# Completion of forewarm in fish: forewarm completion fish | source\n")
	for _, c := range all {
		fmt.Fprintf(w, "complete -c forewarm -f -n __fish_use_subcommand -a %s -d %s\n", c.name, quoted(c.summary))
		seen := quoted("__fish_seen_subcommand_from " + c.name)
		if c.words != "" {
			fmt.Fprintf(w, "complete -c forewarm -f -n %s -a %s\n", seen, quoted(c.words))
		}
		for _, f := range c.flags {
			_, usage := flag.UnquoteUsage(f)
			value := " -r"
			switch {
			case takesNone(f):
				value = ""
			case takesFile(f):
				value = " -r -F"
			}
			fmt.Fprintf(w, "complete -c forewarm -n %s -o %s%s -d %s\n", seen, f.Name, value, quoted(usage))
		}
	}
}
