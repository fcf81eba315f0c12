package jetstream

import (
	"strings"
	"testing"
	"time"
)

func TestSmall(t *testing.T) {
	c := DefaultConfig()
	if got := Small(&c, 8, time.Minute); got != "" {
		t.Errorf("8 pools: %s", got)
	}
	if got := Small(&c, 64, 10*time.Minute); got != "" {
		t.Errorf("64 pools that decide each ten minutes: %s", got)
	}
	if got := Small(&c, 64, time.Minute); !strings.Contains(got, "is 1024 MiB, and 64 pools") || !strings.Contains(got, "8100 MiB") || !strings.Contains(got, "30.0 days: the oldest decisions go after about 3.8;") {
		t.Errorf("64 pools: %s", got)
	}
	c.Partition = "1/4"
	if got := Small(&c, 64, time.Minute); got != "" {
		t.Errorf("a partition: %s", got)
	}
}
