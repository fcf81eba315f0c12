package listener

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"testing"

	"go.opentelemetry.io/collector/pdata/ptrace/ptraceotlp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/forewarm/forewarm/ingest"
)

// BenchmarkListen sends exports of 200 spans over loopback, one after the other.
func BenchmarkListen(b *testing.B) {
	c := onLoopback()
	c.HTTP.RequestsPerS = 1e6
	l := serve(b, c, func(context.Context, *ingest.Batch) error { return nil }, nil)
	export := traces(slices.Repeat([]int64{100}, 200)...)
	rate := func(b *testing.B) { b.ReportMetric(float64(200*b.N)/b.Elapsed().Seconds(), "spans/s") }
	for name, body := range map[string][]byte{"http": protobufOf(export), "http-json": jsonOf(export)} {
		b.Run(name, func(b *testing.B) {
			contentType := map[string]string{"http": "application/x-protobuf", "http-json": "application/json"}[name]
			for b.Loop() {
				res, err := http.Post("http://"+l.Addr()+"/v1/traces", contentType, bytes.NewReader(body))
				if err != nil || res.StatusCode != http.StatusOK {
					b.Fatal(err, res)
				}
				res.Body.Close()
			}
			rate(b)
		})
	}
	b.Run("grpc", func(b *testing.B) {
		conn := must(grpc.NewClient(l.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))
		defer conn.Close()
		client, request := ptraceotlp.NewGRPCClient(conn), ptraceotlp.NewExportRequestFromTraces(export)
		for b.Loop() {
			if _, err := client.Export(b.Context(), request); err != nil {
				b.Fatal(err)
			}
		}
		rate(b)
	})
}
