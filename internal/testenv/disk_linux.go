package testenv

import (
	"fmt"
	"syscall"
	"testing"
)

// SmallDisk mounts a file system of so many bytes until the test ends, which takes root.
func SmallDisk(t testing.TB, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("forewarm-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		Missing(t, "no file system can be mounted to be filled: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}
