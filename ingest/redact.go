package ingest

// quoted shows a value from a message in a Detail.
func quoted(text []byte) string { return string(text) }
