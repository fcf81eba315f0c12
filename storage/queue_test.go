package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func openQueue(t interface {
	Helper()
	Fatal(...any)
}, dir string, most int64) *Queue {
	t.Helper()
	q, err := OpenQueue(dir, most, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// drain reads what a queue holds, and is done with it.
func drain(q *Queue) (got []string) {
	for {
		count, data := q.next()
		if data == nil {
			return got
		}
		got = append(got, fmt.Sprintf("%d %s", count, data))
		q.Done()
	}
}

// Whatever is appended, read and reopened, and wherever: payloads come out as they went in, in order, each until it is done;
// what a full queue pushes out is counted.
func TestQueueIsFirstInFirstOut(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		most := rapid.Int64Range(200, 2000).Draw(t, "most")
		q := openQueue(t, dir, most)
		var want []string
		var dropped, past uint64
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				got, data := q.next()
				if (data == nil) != (len(want) == 0) || data != nil && fmt.Sprintf("%d %s", got, data) != want[0] {
					t.Fatalf("next is %d %q, want the first of %q", got, data, want)
				}
				if rapid.Bool().Draw(t, "done") && data != nil {
					q.Done()
					want = want[1:]
				}
			case 1:
				if err := q.Close(); err != nil {
					t.Fatal(err)
				}
				past += q.Stats().Dropped
				q = openQueue(t, dir, most)
			default:
				payload := fmt.Sprintf("%0*d", rapid.IntRange(1, 150).Draw(t, "width"), i)
				if err := q.Append(2, []byte(payload)); err != nil {
					t.Fatal(err)
				}
				want = append(want, "2 "+payload)
				if d := past + q.Stats().Dropped; d > dropped {
					want = want[(d-dropped)/2:]
					dropped = d
				}
			}
			if s := q.Stats(); s.Waiting != uint64(2*len(want)) || s.Damaged > 0 {
				t.Fatalf("%+v, want %d waiting", s, 2*len(want))
			}
		}
		if diff := cmp.Diff(want, drain(q), cmp.Transformer("", func(s []string) string { return fmt.Sprint(s) })); diff != "" {
			t.Error(diff)
		}
		if n, err := filepath.Glob(filepath.Join(dir, "queue-*")); err != nil || len(n) != 1 {
			t.Errorf("files are left: %v, %v", n, err)
		}
		_ = q.Close()
	})
}

// A crash leaves a torn end, or a cursor that is behind: nothing before the tear is lost, and some may be read twice.
func TestQueueAfterACrash(t *testing.T) {
	dir := t.TempDir()
	q := openQueue(t, dir, 1<<20)
	for i := range 4 {
		if err := q.Append(1, fmt.Appendf(nil, "payload %d", i)); err != nil {
			t.Fatal(err)
		}
	}
	q.next()
	q.Done() // writes the cursor
	q.next()
	q.Done() // too soon after to write it again
	path := q.path(q.segments[0].number)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b[:len(b)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	q = openQueue(t, dir, 1<<20) // the one before was not closed
	if s := q.Stats(); s.Waiting != 2 || s.Damaged != 1 {
		t.Errorf("%+v", s)
	}
	if err := q.Append(1, []byte("payload 4")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 payload 1", "1 payload 2", "1 payload 4"}, drain(q)); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join(dir, cursorFile), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(q.Append(1, []byte("payload 5")), q.file.Close()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"1 payload 4", "1 payload 5"}, drain(openQueue(t, dir, 1<<20))); diff != "" {
		t.Errorf("without a cursor: %s", diff)
	}
}

func TestQueueWaits(t *testing.T) {
	q := openQueue(t, t.TempDir(), 1<<20)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := q.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an empty queue gives %v", err)
	}
	got := make(chan string)
	go func() {
		_, data, _ := q.Next(t.Context())
		got <- string(data)
	}()
	if err := q.Append(1, []byte("payload")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "payload" {
		t.Errorf("next is %q", s)
	}
	if err := errors.Join(q.Append(1, nil), q.Append(1, make([]byte, recordMost))); err == nil {
		t.Error("payloads out of bounds are taken")
	}
}
