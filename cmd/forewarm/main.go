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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/forewarm/forewarm/alerting/report"
	"github.com/forewarm/forewarm/internal/daemon"
)

type command struct {
	name    string
	args    string // positional arguments: "" for none, a name for one, "[NAME]" for at most one
	about   string // what the arguments are
	summary string
	define  func(f *flag.FlagSet) action
}

// action runs a command after define has added its flags, and these are parsed.
type action func(ctx context.Context, args []string, std streams) error

// streams are a command's standard streams, which tests replace.
type streams struct{ out, err io.Writer }

// commands lists every command, in the order of the help.
var commands = []command{
	{"init", "", "", "write a first configuration, from the /metrics of engines if their addresses are given", initConfig},
	{"serve", "", "", "run the daemon: telemetry in from NATS, forecasts, pre-scale events and alerts out", serve},
	{"demo", "", "", "watch it work: synthetic traffic with a launch, a pool that warms up slowly, no other service", demo},
	{"backtest", "[TRACE]", "the file with the traffic, in place of -prometheus", "run the same pipeline over a recorded trace and score it", runBacktest},
	{"plan", "", "", "before a launch: which resource runs out first, when, and how many replicas it takes", runPlan},
	{"publish", "", "", "send telemetry records stamped now to NATS, to try an installation", publish},
	{"replay", "TRACE", "the file with the traffic, such as trace.csv.gz", "publish a trace to NATS, in real time or faster", replay},
	{"report", "", "", "compare a daemon's forecasts and decisions with what came", runReport},
	{"explain", "DECISION", "an event's id such as chat-29500000, or a pool for its newest", "say what a decision rests on, and what came of it", runExplain},
	{"check", "", "", "check a configuration and what it connects to, or a daemon's health", check},
	{"version", "", "", "print the version", version},
}

// usageError is an error in the arguments or the configuration: exit code 2.
type usageError struct{ error }

func usagef(format string, a ...any) error { return usageError{fmt.Errorf(format, a...)} }

// asUsage turns the error of a call into a usageError.
func asUsage[T any](v T, err error) (T, error) {
	if err != nil {
		err = usageError{err}
	}
	return v, err
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], streams{out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// run is main without the process.
func run(ctx context.Context, args []string, std streams) int {
	if len(args) > 1 && args[0] == "help" {
		args = append(args[1:], "-h")
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "-help" || args[0] == "--help" {
		usage(std.out)
		return 0
	}
	for _, c := range commands {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, args[1:], std)
		if err == nil || errors.Is(err, flag.ErrHelp) {
			return 0
		}
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = errors.New("stopped by a signal before it was done")
		}
		fmt.Fprintln(std.err, "forewarm "+c.name+": "+daemon.OneLine(err))
		if errors.As(err, new(usageError)) || errors.As(err, new(daemon.ConfigError)) {
			return 2
		}
		return 1
	}
	fmt.Fprintf(std.err, "forewarm: unknown command %q: forewarm help lists all\n", args[0])
	return 2
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Forewarm sees LLM pools run out of KV memory and tokens/s before they do.\n\nusage: forewarm COMMAND [flags]\n\n")
	for _, c := range commands {
		fmt.Fprintf(w, "  %-11s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nforewarm COMMAND -h lists a command's flags. Start with: forewarm demo\n")
}

// run parses a command's flags, before or after its arguments, and runs it.
func (c *command) run(ctx context.Context, args []string, std streams) error {
	f := flag.NewFlagSet(c.name, flag.ContinueOnError)
	run := c.define(f)
	f.SetOutput(io.Discard) // the error has the whole message, in one line
	var rest []string
	for len(args) > 0 {
		switch err := f.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			c.help(f, std.out)
			return err
		case err != nil:
			text, fix := err.Error(), "a number, or a duration such as 20m"
			if strings.HasPrefix(text, "invalid boolean ") {
				fix = "true or false"
			}
			if value, ok := strings.CutSuffix(text, ": parse error"); ok {
				text = value + ": it must be " + fix
			}
			return usagef("%s; forewarm %s -h lists all flags with their types", text, c.name)
		}
		if args = f.Args(); len(args) > 0 {
			rest, args = append(rest, args[0]), args[1:]
		}
	}
	switch optional := strings.HasPrefix(c.args, "["); {
	case c.args == "" && len(rest) > 0:
		return usagef("%s takes flags only, not %q; forewarm %s -h lists them", c.name, rest[0], c.name)
	case len(rest) == 0 && c.args != "" && !optional:
		return usagef("name one %s: %s", c.args, c.about)
	case len(rest) > 1:
		return usagef("name one %s and not %d: %s", c.argument(), len(rest), c.about)
	}
	if err := c.checkTogether(f, rest); err != nil {
		return err
	}
	return run(ctx, rest, std)
}

// argument is the name of the command's arguments, such as TRACE.
func (c *command) argument() string { return strings.Trim(c.args, "[]") }

func (c *command) help(f *flag.FlagSet, w io.Writer) {
	fmt.Fprintf(w, "%s\n\nusage: %s\n", c.summary, strings.TrimSpace("forewarm "+c.name+" [flags] "+c.args))
	if c.args != "" {
		fmt.Fprintf(w, "\n%s: %s\n", c.argument(), c.about)
	}
	fmt.Fprintln(w, "\nflags:")
	f.SetOutput(w)
	f.PrintDefaults()
}

// choice adds a flag that sets value to one of several words.
func choice(f *flag.FlagSet, value *string, name, usage string, words ...string) {
	f.Func(name, usage, func(s string) error {
		if !slices.Contains(words, s) {
			return errors.New("it must be one of " + strings.Join(words, ", "))
		}
		*value = s
		return nil
	})
}

// timeFlag adds a flag with a time, by default the zero time.
func timeFlag(f *flag.FlagSet, t *time.Time, name, usage string) {
	f.Func(name, usage, func(s string) error {
		parsed, err := report.ParseTime("", s, time.UTC)
		if err != nil {
			return errors.New("it must be a time as in RFC 3339, such as 2026-03-02T07:00:00Z, or a date")
		}
		*t = parsed.UTC()
		return nil
	})
}
