package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

// release is the version of a release build, set by the linker. Other builds show their commit.
var release = ""

func version(_ context.Context, _ []string, std streams) error {
	fmt.Fprintln(std.out, "forewarm", versionString())
	return nil
}

func versionString() string {
	if info, ok := debug.ReadBuildInfo(); ok && release == "" {
		return info.Main.Version
	}
	return release
}
