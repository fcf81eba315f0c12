package testenv

import (
	"fmt"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system with this size in bytes until the test ends. It needs root.
func SmallDisk(t testing.TB, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("forewarm-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		Missing(t, "cannot mount a small file system, which needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}
