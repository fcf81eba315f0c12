package server

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestTimelineBeforeTheFirstTick: unknown times are left out.
func TestTimelineBeforeTheFirstTick(t *testing.T) {
	text, err := json.Marshal(timelineJSON{Pool: "chat"})
	if err != nil || strings.Contains(string(text), "0001-") {
		t.Errorf("%s, %v", text, err)
	}
}
