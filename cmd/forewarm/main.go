// Command forewarm forecasts the load of LLM fleets in tokens. It shows which resource will run out, when, and how many
// replicas are needed, early enough for GPUs to warm up.
//
// Each subcommand is one file with its flags and a call. serve runs internal/daemon. Exit codes: 0 done, 1 failed, 2
// usage or configuration.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/forewarm/forewarm/internal/daemon"
)

// command is one subcommand.
type command struct {
	name, summary string
	run           func(ctx context.Context, args []string, std streams) error
}

// streams are a command's standard streams, which tests replace.
type streams struct {
	out, err io.Writer
	flags    func(*flag.FlagSet) // if set, it receives a command's flags, and the command does not run
}

// commands lists every command, in the order of the help.
func commands() []command {
	return []command{
		{"init", "write a first configuration, from what an engine says of itself where its /metrics address is given", initConfig},
		{"serve", "run the daemon: telemetry in from NATS, forecasts, pre-scale events and alerts out", serve},
		{"demo", "watch it work: synthetic traffic with a launch, a pool that warms up slowly, no other service", demo},
		{"backtest", "run the same pipeline over a recorded trace and score it", runBacktest},
		{"plan", "before a launch: which resource runs out first, when, and how many replicas it takes", runPlan},
		{"publish", "send telemetry records stamped now to NATS, to try an installation", publish},
		{"replay", "publish a trace to NATS, in real time or faster", replay},
		{"report", "compare a daemon's forecasts and decisions with what came", runReport},
		{"explain", "say what a decision rests on, and what came of it", runExplain},
		{"decode", "show what Forewarm understands of a message, and what it refuses", decode},
		{"check", "check a configuration, what it connects to, or a data directory", check},
		{"discover", "publish the pools that annotations of Kubernetes objects define, for all daemons on one NATS", discover},
		{"nats-config", "print users with the least rights, and partitions, for the configuration of a NATS server", natsConfig},
		{"completion", "print a script by which a shell completes commands and flags: bash, zsh or fish", completion},
		{"version", "print the version", version},
	}
}

// usageError is an error in the arguments or the configuration: exit code 2.
type usageError struct{ error }

func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args []string, std streams) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		usage(std.out)
		return 0
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, args[1:], std)
		if err == nil || errors.Is(err, flag.ErrHelp) {
			return 0
		}
		if errors.Is(err, context.Canceled) {
			err = errors.New("stopped by a signal before it was done")
		}
		fmt.Fprintln(std.err, "forewarm "+c.name+": "+oneLine(err))
		if errors.As(err, new(usageError)) || errors.As(err, new(daemon.ConfigError)) {
			return 2
		}
		return 1
	}
	fmt.Fprintf(std.err, "forewarm: unknown command %q: run forewarm help for the list\n", args[0])
	return 2
}

func oneLine(err error) string { return strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ") }

func usage(w io.Writer) {
	fmt.Fprint(w, "Forewarm sees LLM pools run out of KV memory and tokens/s before they do.\n\nusage: forewarm COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nforewarm COMMAND -h lists a command's flags. Start with: forewarm demo\n")
}

// parse parses a subcommand's flags, before or after arguments. An invalid flag is a usage error.
func parse(f *flag.FlagSet, args []string, std streams) ([]string, error) {
	if std.flags != nil {
		std.flags(f)
		return nil, flag.ErrHelp
	}
	f.SetOutput(io.Discard) // the error has the whole message, in one line
	var rest []string
	for len(args) > 0 {
		switch err := f.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			fmt.Fprintf(std.out, "flags of forewarm %s:\n", f.Name())
			f.SetOutput(std.out)
			f.PrintDefaults()
			return nil, err
		case err != nil:
			return nil, usagef("%w: run forewarm %s -h for the list", valueError(f, err), f.Name())
		}
		args = f.Args()
		if len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	return rest, nil
}

// invalidValue matches the flag package's error for an invalid value.
var invalidValue = regexp.MustCompile(`^invalid value (".*") for flag -([^:]+): (?:parse error|value out of range)$`)

// valueError says what the value of a flag must be.
func valueError(f *flag.FlagSet, err error) error {
	m := invalidValue.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	must := "a number"
	switch f.Lookup(m[2]).Value.(flag.Getter).Get().(type) {
	case time.Duration:
		must = "a duration, such as 90s or 20m"
	case int, int64:
		must = "a whole number"
	case uint64:
		must = "a whole number from 0 on"
	}
	return fmt.Errorf("-%s is %s: it must be %s", m[2], m[1], must)
}

// parseOnly is parse for subcommands without arguments.
func parseOnly(f *flag.FlagSet, args []string, std streams) error {
	rest, err := parse(f, args, std)
	if err == nil && len(rest) > 0 {
		err = usagef("%s takes flags only, not %q: run forewarm %s -h for the list", f.Name(), rest[0], f.Name())
	}
	return err
}
