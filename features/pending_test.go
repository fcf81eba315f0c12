package features

import "testing"

// What was measured in minutes that are jumped over goes with them.
func TestPendingOfMinutesJumpedOver(t *testing.T) {
	a := New(DefaultConfig())
	mustAdd(t, a, request("r", 1))
	a.CatchUp()
	if a.sparePending.used == 0 {
		t.Fatal("nothing waits: the test is void")
	}
	a.Close(at(86400))
	a.Close(at(86460)) // takes back what the one before lent out
	if a.sparePending.used != 0 || a.spareCells.used != 0 {
		t.Errorf("%d pending, %d cells are in use", a.sparePending.used, a.spareCells.used)
	}
}
