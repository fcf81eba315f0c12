package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/forewarm/forewarm/internal/testenv"
)

// TestCompletion runs each shell, and checks the words that it offers. The program is not in its PATH.
func TestCompletion(t *testing.T) {
	forewarm, err := program()
	if err != nil {
		t.Fatal(err)
	}
	for shell, ask := range map[string]string{
		"bash": `source "$0"; command=$(complete -p forewarm | sed 's/.*-C \([^ ]*\).*/\1/'); COMP_LINE="$*" eval "$command"`,
		// Without a terminal zsh has no completion, so the test runs the command that the script registers.
		"zsh":  `autoload() {}; bashcompinit() {}; complete() { command=$4 }; source "$0"; COMP_LINE="$*" $command`,
		"fish": `source $argv[1]; complete -C (string join ' ' -- $argv[2..]) | string split -f1 \t; true`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip("not installed: ", shell)
			}
			script, err := exec.CommandContext(t.Context(), forewarm, "completion", shell).Output()
			if err != nil {
				t.Fatal(err)
			}
			file := testenv.WriteFile(t, filepath.Join(t.TempDir(), "script"), string(script))
			for _, tc := range []struct {
				words       []string
				has, hasNot []string
			}{
				{[]string{"forewarm", ""}, []string{"serve", "nats-config", "completion"}, []string{"-config", "bash"}},
				{[]string{"forewarm", "serve", "-"}, []string{"-config"}, []string{"-health", "serve"}},
				{[]string{"forewarm", "check", "-offline", "-"}, []string{"-health", "-offline"}, []string{"-speed"}},
				{[]string{"forewarm", "completion", ""}, []string{"bash", "zsh", "fish"}, []string{"serve"}},
			} {
				out, err := exec.CommandContext(t.Context(), path, append([]string{"-c", ask, file}, tc.words...)...).CombinedOutput()
				offered := strings.Fields(string(out))
				if err != nil {
					t.Errorf("%v: %v: %s", tc.words, err, out)
				}
				for _, word := range tc.has {
					if !slices.Contains(offered, word) {
						t.Errorf("%v: %q is not offered: %q", tc.words, word, offered)
					}
				}
				for _, word := range tc.hasNot {
					if slices.Contains(offered, word) {
						t.Errorf("%v: %q is offered", tc.words, word)
					}
				}
			}
		})
	}
}
