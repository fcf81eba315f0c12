package main

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
)

// release is the version of a release build, set by the linker. Other builds show their commit.
var release = ""

func version(*flag.FlagSet) action {
	return func(_ context.Context, _ []string, std streams) error {
		_, err := fmt.Fprintln(std.out, "forewarm", versionString())
		return err
	}
}

func versionString() string {
	if info, ok := debug.ReadBuildInfo(); ok && release == "" {
		return info.Main.Version
	}
	return release
}
