package ingest

// Limits bounds what a decoder accepts. The zero value is not usable: start from [DefaultLimits].
type Limits struct {
	MessageBytes int   // largest message after decompression
	BatchRecords int   // most records in one message
	Depth        int   // deepest JSON nesting
	LabelBytes   int   // longest pool, class, tenant, … name
	Tokens       int64 // largest token count in one record
	SumTokens    int64 // largest count in one sum
}

// DefaultLimits are large enough for real traffic and small enough against attacks.
func DefaultLimits() Limits {
	return Limits{
		MessageBytes: 8 << 20, BatchRecords: 50_000, Depth: 32, LabelBytes: 256,
		Tokens: 100_000_000, SumTokens: 1_000_000_000_000,
	}
}
