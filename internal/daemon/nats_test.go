package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
)

// TestLeastRights: with the permissions of deploy/nats/permissions.conf, the daemon reads telemetry, publishes
// decisions and events, and restores snapshots. Autoscalers read events and acknowledge. If a permission of the daemon
// is missing, the error names it.
func TestLeastRights(t *testing.T) {
	for _, user := range []string{"FOREWARM", "PRODUCER", "CONSUMER"} {
		t.Setenv(user+"_PASSWORD", "secret")
	}
	shipped := must(filepath.Abs("../../deploy/nats/permissions.conf"))
	file := must(os.ReadFile(shipped))
	c := jetstream.DefaultConfig()
	address := strings.TrimPrefix(testenv.StartNATS(t, string(file)), "nats://")
	as := func(user string) *nats.Conn {
		conn := must(nats.Connect("nats://" + user + ":secret@" + address))
		t.Cleanup(conn.Close)
		return conn
	}
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer hook.Close()
	dir := t.TempDir()
	lines := []string{
		"clock: event", "features: {lateness: 0s}",
		"sinks: {alertmanager: {urls: ['" + hook.URL + "']}}",
		"pools: [{name: chat, decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 40}}]",
	}
	t.Setenv("FOREWARM_NATS_URL", "nats://forewarm:secret@"+address)
	p := startDaemonIn(t, dir, lines...)
	producer, consumer := as("producer"), as("consumer")
	begin := time.Now().UTC().Truncate(time.Minute).Add(-time.Hour)
	for m := range 20 {
		at := begin.Add(time.Duration(m) * time.Minute).UnixMilli()
		for _, x := range []struct{ subject, data string }{
			{"request.chat.agent", fmt.Sprintf(`{"id":"r-%d","arrived_at":%d,"finished_at":%d,"prompt_tokens":900,"output_tokens":%d}`, m, at, at+9000, 40_000)},
			{"replica.chat.r0", fmt.Sprintf(`{"at":%d,"state":"ready"}`, at)},
			{"watermark.chat", fmt.Sprintf(`{"at":%d}`, at+60_000)},
		} {
			if err := producer.Publish("forewarm.telemetry."+x.subject, []byte(x.data)); err != nil {
				t.Fatal(err)
			}
		}
	}
	testenv.Await(t, "the last tick", func() bool { return !p.Status().Tick.Before(begin.Add(19 * time.Minute)) })

	js := must(natsjs.New(consumer))
	reader := must(js.CreateConsumer(t.Context(), "FOREWARM_SIGNALS", natsjs.ConsumerConfig{Durable: "keda", FilterSubject: "forewarm.prescale.chat"}))
	event, err := reader.Next()
	if err != nil || event.DoubleAck(t.Context()) != nil {
		t.Fatalf("no pre-scale event: %v", err)
	}
	if _, err := js.Publish(t.Context(), "forewarm.prescale.ack.chat", []byte(`{"generation":1,"accepted":true}`)); err != nil {
		t.Errorf("publish an acknowledgement: %v", err)
	}
	if _, err := js.Publish(t.Context(), "forewarm.decision.chat", nil); err == nil {
		t.Error("a consumer may publish decisions, so the test shows nothing")
	}
	testenv.Await(t, "delivery", func() bool {
		return !slices.ContainsFunc(p.dispatcher.Stats(), func(s alerting.SinkStats) bool { return s.Sent == 0 })
	})
	daemon := p.Daemon.conn
	check := func() {
		t.Helper()
		if err := daemon.LastError(); err != nil {
			t.Errorf("the daemon has too few permissions: %v", err)
		}
	}
	check()
	p.stop()
	p = startDaemonIn(t, dir, lines...)
	daemon = p.Daemon.conn
	testenv.Await(t, "the restarted daemon to read the stream", func() bool { lag, ok := p.consumer.Pending(); return ok && lag == 0 })
	if s := p.Status(); !strings.HasPrefix(s.Restore, "snapshot at") {
		t.Errorf("after a restart: %s", s.Restore)
	}
	check()

	// A missing permission is named. One server has a user for each stream, who may not see it.
	users := must(server.ProcessConfigFile(shipped)).Users
	all := users[slices.IndexFunc(users, func(u *server.User) bool { return u.Username == "forewarm" })].Permissions
	unseen := slices.DeleteFunc(slices.Clone(all.Publish.Allow), func(s string) bool { return !strings.Contains(s, "STREAM.INFO.") })
	if len(unseen) != 6 {
		t.Errorf("%d streams may be seen: %s", len(unseen), unseen)
	}
	o := &server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir()}
	for i, subject := range unseen {
		o.Users = append(o.Users, &server.User{Username: fmt.Sprint("u", i), Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: all.Publish.Allow, Deny: []string{subject}}, Subscribe: all.Subscribe,
		}})
	}
	url := testenv.StartNATSWith(t, o)
	for i, subject := range unseen {
		conn := must(nats.Connect(strings.Replace(url, "nats://", fmt.Sprintf("nats://u%d:p@", i), 1)))
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		if _, _, err := c.Join(ctx, conn); !strings.Contains(fmt.Sprint(err), subject) || !strings.Contains(err.Error(), "permissions.conf") {
			t.Errorf("without %s: %v", subject, err)
		}
		cancel()
		conn.Close()
	}
}
