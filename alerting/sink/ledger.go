package sink

// Ledger remembers over restarts what each sink has dealt with: delivered, or had refused for good. It is safe for
// concurrent use, and none of its methods waits for a consumer.
//
// A sink is told of an identity once under an id. When the process dies between a delivery and Settle, the same notice
// goes out again after the restart, under the same id, for the consumer to drop.
type Ledger interface {
	// Settled is the id under which sink last dealt with an identity, "" when it has not.
	Settled(sink, identity string) (id string)
	// Settle notes that sink has dealt with id.
	Settle(sink, identity, id string)
}

// forgetful is the ledger of a dispatcher that was given none: every notice is new to it.
type forgetful struct{}

func (forgetful) Settled(_, _ string) string { return "" }
func (forgetful) Settle(_, _, _ string)      {}
