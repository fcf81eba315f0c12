package sink

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
)

// ObjectStoreConfig is the object_store block: reports are put in a bucket of NATS.
type ObjectStoreConfig struct {
	Bucket string        `yaml:"bucket"` // "" puts them nowhere
	Keep   time.Duration `yaml:"keep"`   // how long a bucket that is made here keeps a report; 0 for ever
}

func (c *ObjectStoreConfig) check() error {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}
	switch {
	case strings.ContainsFunc(c.Bucket, bad) || len(c.Bucket) > 200:
		return fmt.Errorf("bucket: %q is no bucket; write letters, digits, dashes and underscores", c.Bucket)
	case c.Keep < 0:
		return fmt.Errorf("keep: %s is below 0; set 0 for ever, or more", c.Keep)
	}
	return nil
}

// Objects is the part of jetstream.JetStream that finds buckets and makes them.
type Objects interface {
	ObjectStore(ctx context.Context, bucket string) (jetstream.ObjectStore, error)
	CreateObjectStore(ctx context.Context, cfg jetstream.ObjectStoreConfig) (jetstream.ObjectStore, error)
}

// chunkSize of objects, in bytes, fits servers whose max_payload is less than the usual 1 MB.
const chunkSize = 32 << 10

// objectStore puts reports into a bucket.
type objectStore struct {
	cfg  ObjectStoreConfig
	deps ReportDeps
}

// Name is "report/object_store".
func (*objectStore) Name() string { return "report/object_store" }

// Accepts is true for reports.
func (*objectStore) Accepts(n alerting.Notice) bool { return n.Report != nil }

// Pace leaves time to a cluster that elects.
func (*objectStore) Pace() (backoff, maxBackoff time.Duration) {
	return 5 * time.Second, 10 * time.Minute
}

// Patience is enough for some megabytes over a slow link.
func (*objectStore) Patience() time.Duration { return time.Minute }

// Send puts the files; those of an earlier attempt have the same names and are replaced.
func (s *objectStore) Send(ctx context.Context, n alerting.Notice) error {
	pages, err := s.deps.Pages(n.Report)
	if err != nil {
		return err
	}
	bucket, err := s.open(ctx)
	if err != nil {
		return err
	}
	for _, f := range pages.files() {
		meta := jetstream.ObjectMeta{
			Name: n.Report.Name + f.extension, Description: "Forewarm report, " + n.Report.Period(),
			Headers: nats.Header{"Content-Type": {f.contentType}}, Metadata: map[string]string{"id": n.Report.ID},
			Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize},
		}
		if _, err := bucket.Put(ctx, meta, bytes.NewReader(f.data)); err != nil {
			return fmt.Errorf("put %s into bucket %s: %w", meta.Name, s.cfg.Bucket, err)
		}
	}
	return nil
}

// open finds the bucket, or makes it.
func (s *objectStore) open(ctx context.Context) (jetstream.ObjectStore, error) {
	bucket, err := s.deps.Objects.ObjectStore(ctx, s.cfg.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		bucket, err = s.deps.Objects.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: s.cfg.Bucket, Description: "Reports of Forewarm", TTL: s.cfg.Keep,
		})
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w; let this user use it, or make it with nats object add %s", s.cfg.Bucket, err, s.cfg.Bucket)
	}
	return bucket, nil
}

// Probe opens the bucket, making it where it is missing.
func (s *objectStore) Probe(ctx context.Context) (string, error) {
	bucket, err := s.open(ctx)
	if err != nil {
		return "", err
	}
	status, err := bucket.Status(ctx)
	if err != nil {
		return "", fmt.Errorf("bucket %s: %w", s.cfg.Bucket, err)
	}
	return fmt.Sprintf("bucket %s holds %d bytes", s.cfg.Bucket, status.Size()), nil
}
