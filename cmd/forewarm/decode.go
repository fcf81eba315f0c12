package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest"
	"github.com/forewarm/forewarm/ingest/codec"
)

// decode shows how Forewarm reads messages: what serve would count, and what it would refuse and why.
func decode(f *flag.FlagSet) action {
	var m codec.Meta
	var received time.Time
	format := choice(f, "format", "json", "`format` of the messages, one of those that -formats lists (default json)", codec.Formats()...)
	list := f.Bool("formats", false, "list the formats with their content types, and stop")
	subject := f.String("subject", "", "`subject` that the messages came on, such as forewarm.telemetry.replica.chat.r-0: of which kind they are, and whose")
	timeFlag(f, &received, "received-at", "`time` at which the stream stored the messages, RFC 3339 (default: now)")
	f.StringVar(&m.Pool, "pool", "", "`pool` of records that name none")
	f.StringVar(&m.Class, "class", "", "`class` of records that name none")
	return func(_ context.Context, files []string, std streams) error {
		if *list {
			for _, name := range codec.Formats() {
				contentType, _ := codec.ContentTypeOf(name)
				fmt.Fprintf(std.out, "%-20s %s\n", name, contentType)
			}
			return nil
		}
		m.ContentType, _ = codec.ContentTypeOf(*format)
		if received.IsZero() {
			received = time.Now().UTC()
		}
		if *subject != "" {
			on, ok := codec.ParseSubject(config.Default().NATS.Prefix, *subject)
			if !ok {
				return usagef("-subject is %q: it must be one that carries telemetry, such as %s", *subject, ingest.Subject(config.Default().NATS.Prefix, ingest.ReplicaSubject, "chat", "r-0"))
			}
			m.Source, m.Kind, m.Replica, m.Pool, m.Class = on.Source, on.Kind, on.Replica, on.Pool, on.Class
		}
		if len(files) == 0 {
			files = []string{"-"}
		}
		records, refused := 0, 0
		for _, file := range files {
			data, err := readMessage(file)
			if err != nil {
				return err
			}
			if m.Encoding = ""; filepath.Ext(file) == ".gz" {
				m.Encoding = codec.EncodingGzip
			}
			b := ingest.Batch{ReceivedAt: received}
			codec.Decode(m, data, ingest.DefaultLimits(), &b)
			n, err := printBatch(&b, file, std)
			if err != nil {
				return err
			}
			records, refused = records+n, refused+len(b.Refused)
		}
		if refused > 0 {
			return fmt.Errorf("%d refused, %d understood", refused, records)
		}
		return nil
	}
}

// readMessage reads a file, or the standard input for "-", up to one byte more than the largest message.
func readMessage(file string) (data []byte, err error) {
	in := os.Stdin
	if file != "-" {
		if in, err = os.Open(file); err != nil {
			return nil, usageError{err}
		}
		defer func() { err = errors.Join(err, in.Close()) }()
	}
	return io.ReadAll(io.LimitReader(in, int64(ingest.DefaultLimits().MessageBytes)+1))
}

// printBatch writes records in the native format, one per line, and reports what was not converted.
func printBatch(b *ingest.Batch, file string, std streams) (records int, err error) {
	out := appendLines(nil, b.Requests, codec.Append)
	out = appendLines(out, b.Sums, codec.Append)
	out = appendLines(out, b.Replicas, codec.Append)
	out = appendLines(out, b.Acks, codec.Append)
	out = appendLines(out, b.Histories, codec.Append)
	if b.Watermark != nil {
		out = append(codec.Append(out, b.Watermark), '\n')
	}
	if b.Ignored > 0 {
		fmt.Fprintf(std.err, "%s: ignored %d: valid, but without demand\n", file, b.Ignored)
	}
	for _, r := range b.Refused {
		fmt.Fprintf(std.err, "%s: %s: %s\n", file, r.Reason, r.Detail)
	}
	_, err = std.out.Write(out)
	return bytes.Count(out, []byte{'\n'}), err
}

// appendLines appends records, each on a line.
func appendLines[T any](out []byte, records []T, record func([]byte, *T) []byte) []byte {
	for i := range records {
		out = append(record(out, &records[i]), '\n')
	}
	return out
}
