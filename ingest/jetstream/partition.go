package jetstream

import (
	"fmt"
	"hash/fnv"
	"strings"

	"github.com/forewarm/forewarm/ingest"
)

// partition is the part of all pools that a daemon serves: index of count. Count 0 means that there are no partitions.
//
// The NATS server splits the telemetry: a mapping of the account (see [Mappings]) puts the partition of a pool in front
// of each message's subject. So each partition has a telemetry stream of its own, and reads nothing of the others.
type partition struct{ index, count int }

const maxPartitions = 1024

// parsePartition reads i/n; "" is no partition.
func parsePartition(s string) (p partition, err error) {
	if s == "" {
		return p, nil
	}
	_, err = fmt.Sscanf(s, "%d/%d", &p.index, &p.count)
	if err != nil || fmt.Sprintf("%d/%d", p.index, p.count) != s || p.count < 1 || p.count > maxPartitions || p.index < 0 || p.index >= p.count {
		return partition{}, fmt.Errorf("partition is %q: it must be i/n, such as 0/4: i from 0 to n-1, n from 1 to %d", s, maxPartitions)
	}
	return p, nil
}

// partition is the parsed key; [Config.Validate] has refused what cannot be parsed.
func (c *Config) partition() partition {
	p, _ := parsePartition(c.Partition)
	return p
}

// Partitioned reports whether this daemon serves a part of the pools only.
func (c *Config) Partitioned() bool { return c.partition().count > 0 }

// PartitionOf is the index of the partition that a pool belongs to: the FNV-1a hash of its name as a token of a
// subject, modulo the number of partitions, as nats-server's partition function has it. It is 0 without partitions.
func (c *Config) PartitionOf(pool string) int {
	n := c.partition().count
	if n == 0 {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(ingest.EscapeToken(pool)))
	return int(h.Sum32() % uint32(n))
}

// Owns reports whether a pool belongs to this daemon's partition.
func (c *Config) Owns(pool string) bool {
	return !c.Partitioned() || c.PartitionOf(pool) == c.partition().index
}

// Inner is the prefix of the subjects that only one partition reads and writes: of its telemetry, decisions and
// notices. Without partitions it is the prefix of all subjects.
func (c *Config) Inner() string {
	if p := c.partition(); p.count > 0 {
		return fmt.Sprintf("%s.%d.%d", c.Prefix, p.count, p.index)
	}
	return c.Prefix
}

// own is the name that a stream or a bucket has in this partition.
func (c *Config) own(name string) string {
	if p := c.partition(); p.count > 0 {
		return fmt.Sprintf("%s_%d_OF_%d", name, p.index, p.count)
	}
	return name
}

// Telemetry is the name of the stream that this daemon reads its telemetry from.
func (c *Config) Telemetry() string { return c.own(c.Stream.Name) }

// Decisions is the name of the stream of decisions and notices.
func (c *Config) Decisions() string { return c.own(DecisionsStream) }

// State is the name of the object store of snapshots.
func (c *Config) State() string { return c.own(StateBucket) }

// Deliveries is the name of the key-value store with the newest notice that each sink accepted.
func (c *Config) Deliveries() string { return c.own(DeliveriesBucket) }

// Mappings is the part of a nats-server's configuration, of the account that producers use, which splits telemetry
// below prefix in n partitions. A message that names no pool in its subject goes to the first partition, where it is
// refused.
func Mappings(prefix string, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "mappings {\n")
	for _, m := range []struct{ from, to string }{
		{"telemetry.*.*", fmt.Sprintf("{{partition(%d,2)}}.telemetry.{{wildcard(1)}}.{{wildcard(2)}}", n)},
		{"telemetry.*.*.>", fmt.Sprintf("{{partition(%d,2)}}.telemetry.{{wildcard(1)}}.{{wildcard(2)}}.>", n)},
		{"telemetry.*", "0.telemetry.{{wildcard(1)}}"},
		{"prescale.ack.*", fmt.Sprintf("{{partition(%d,1)}}.prescale.ack.{{wildcard(1)}}", n)},
	} {
		fmt.Fprintf(&b, "  %q: %q\n", prefix+"."+m.from, fmt.Sprintf("%s.%d.%s", prefix, n, m.to))
	}
	b.WriteString("}\n")
	return b.String()
}
