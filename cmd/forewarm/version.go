package main

import (
	"context"
	"fmt"
	"runtime/debug"
)

// release is the version of a release build, set by the linker; other builds report their commit.
var release = ""

func version(_ context.Context, _ []string, std streams) error {
	fmt.Fprintln(std.out, "forewarm", versionString())
	return nil
}

func versionString() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel " + s.Value
		}
	}
	return "devel"
}
