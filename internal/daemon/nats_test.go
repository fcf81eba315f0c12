package daemon

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/forewarm/forewarm/alerting"
	"github.com/forewarm/forewarm/config"
	"github.com/forewarm/forewarm/ingest/jetstream"
	"github.com/forewarm/forewarm/internal/testenv"
)

// decisionOf is the part of a decision that does not depend on partitions.
type decisionOf struct {
	Pool    string
	Tick    time.Time
	Action  string
	Desired int
}

func comparableDecisions(t *testing.T, p *inProcess) (all map[string][]decisionOf) {
	t.Helper()
	all = map[string][]decisionOf{}
	for _, d := range decisionsOf(t, p) {
		all[d.Pool] = append(all[d.Pool], decisionOf{d.Pool, d.Tick, string(d.Action), d.Desired})
	}
	return all
}

// TestPartitions: three daemons, each with a part of the pools, make the same decisions as one daemon of all pools.
// Producers publish on the usual subjects.
func TestPartitions(t *testing.T) {
	t.Parallel()
	const partitions, minutes = 3, 30
	lines := func(nats string) []string {
		all := []string{nats, "clock: event", "features: {lateness: 0s}", "default_pool: {decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 40}}", "pools:"}
		for _, pool := range []string{"chat", "code", "agents", "batch", "vision"} {
			all = append(all, "  - {name: "+pool+", decode_tokens_per_s: 400, itl: 25ms, warmup: {p50: 6m, p90: 12m}, replicas: {min: 1, max: 40}}")
		}
		return all
	}
	// One pool is served by default_pool, and its name is escaped in subjects.
	pools := []string{"chat", "code", "agents", "batch", "vision", "not.listed"}
	begin := time.Now().UTC().Truncate(time.Minute).Add(-2 * time.Hour)
	send := func(daemons []*inProcess) {
		t.Helper()
		for m := range minutes {
			at := begin.Add(time.Duration(m) * time.Minute)
			for i, pool := range pools {
				token := strings.ReplaceAll(pool, ".", "%2E")
				for r := range (i + 1) * (m/8 + 1) {
					daemons[r%len(daemons)].publish(t, "forewarm.telemetry.request."+token+".agent", fmt.Appendf(nil,
						`{"id":"%s-%d-%d","arrived_at":%d,"finished_at":%d,"prompt_tokens":900,"output_tokens":%d}`, pool, m, r, at.UnixMilli()+int64(r), at.UnixMilli()+9000, 300+100*m))
				}
			}
			for _, d := range daemons { // messages of one connection may overtake those of another
				if err := d.conn.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			for _, pool := range pools {
				daemons[0].publish(t, "forewarm.telemetry.watermark."+strings.ReplaceAll(pool, ".", "%2E"), fmt.Appendf(nil, `{"at":%d}`, at.Add(time.Minute).UnixMilli()))
			}
		}
	}
	end := begin.Add(minutes * time.Minute)
	finish := func(p *inProcess) {
		testenv.Await(t, "the last tick", func() bool { at := p.Status().Tick; return !at.Before(end) })
		if err := p.decisions.Await(t.Context(), p.decisions.Added()); err != nil {
			t.Fatal(err)
		}
	}

	one := startDaemon(t, lines("nats: {url: '"+testenv.StartNATS(t)+"'}")...)
	send([]*inProcess{one})
	finish(one)
	want := comparableDecisions(t, one)
	if len(want) != len(pools) {
		t.Fatalf("one daemon decides for %d pools, want %d", len(want), len(pools))
	}

	url := testenv.StartNATS(t, jetstream.Mappings("forewarm", partitions))
	var parts []*inProcess
	for i := range partitions {
		parts = append(parts, startDaemon(t, lines(fmt.Sprintf("nats: {url: '%s', partition: %d/%d}", url, i, partitions))...))
	}
	send(parts)
	got := map[string][]decisionOf{}
	for i, p := range parts {
		finish(p)
		for pool, all := range comparableDecisions(t, p) {
			if !p.cfg.NATS.Owns(pool) || got[pool] != nil {
				t.Errorf("partition %d decides for pool %s", i, pool)
			}
			got[pool] = all
		}
		if c := p.pipeline.Counters(); len(c.Refused) > 0 {
			t.Errorf("partition %d refused %v", i, c.Refused)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions (-one daemon +partitions):\n%s", diff)
	}

	// A record that names a pool of another partition than its subject is refused.
	other := pools[0]
	for parts[0].cfg.NATS.PartitionOf(other) == parts[0].cfg.NATS.PartitionOf("chat") {
		other += "x"
	}
	parts[0].publish(t, "forewarm.telemetry.request.chat.agent", fmt.Appendf(nil, `{"id":"stray","pool":"%s","arrived_at":%d,"prompt_tokens":1}`, other, end.UnixMilli()))
	owner := parts[parts[0].cfg.NATS.PartitionOf("chat")]
	testenv.Await(t, "the stray record to be refused", func() bool {
		return strings.Contains(owner.Status().Refused, "another partition")
	})
}

// TestPartitionOf compares the partition of pools with the server's mapping.
func TestPartitionOf(t *testing.T) {
	t.Parallel()
	const partitions = 7
	conn := must(nats.Connect(testenv.StartNATS(t, jetstream.Mappings("forewarm", partitions))))
	defer conn.Close()
	c := config.Default().NATS
	c.Partition = fmt.Sprintf("0/%d", partitions)
	got := testenv.Subscribe(t, conn, "forewarm.7.>")
	for i := range 50 {
		pool := fmt.Sprintf("pool-%d", i*i)
		if err := conn.Publish("forewarm.telemetry.request."+pool+".a.b", nil); err != nil {
			t.Fatal(err)
		}
		m := must(got.NextMsg(testenv.Patience))
		if want := fmt.Sprintf("forewarm.7.%d.telemetry.request.%s.a.b", c.PartitionOf(pool), pool); m.Subject != want {
			t.Errorf("the server maps pool %s to %s, want %s", pool, m.Subject, want)
		}
	}
}

// TestPartitionsLeastRights: the users of a partitioned server may publish on the subjects that they need. The server
// checks permissions after the mapping.
func TestPartitionsLeastRights(t *testing.T) {
	const partitions = 3
	users := map[string][]string{
		"producer": {"telemetry.request.chat.agent", "telemetry.request.chat", "telemetry.replica.chat.r0", "telemetry.watermark.chat"},
		"consumer": {"prescale.ack.chat"},
		"forewarm": {"telemetry.request.chat.agent", "telemetry.watermark.chat"},
	}
	for user := range users {
		t.Setenv(strings.ToUpper(user)+"_PASSWORD", "secret")
	}
	c := jetstream.DefaultConfig()
	c.Partition = fmt.Sprintf("0/%d", partitions)
	address := strings.TrimPrefix(testenv.StartNATS(t, jetstream.Mappings("forewarm", partitions)+c.Permissions()), "nats://")
	for user, subjects := range users {
		conn, err := nats.Connect("nats://" + user + ":secret@" + address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for _, s := range subjects {
			if err := errors.Join(conn.Publish("forewarm."+s, nil), conn.Flush(), conn.LastError()); err != nil {
				t.Errorf("%s publishes to forewarm.%s: %v", user, s, err)
			}
		}
		if err := errors.Join(conn.Publish("forewarm.3.0.decision.chat", nil), conn.Flush(), conn.LastError()); err == nil && user != "forewarm" {
			t.Errorf("%s may publish decisions", user)
		}
	}
}

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
	if !strings.HasSuffix(string(file), "\n"+c.Permissions()) {
		t.Error("deploy/nats/permissions.conf differs from the output of forewarm nats-config: write it again")
	}
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
	reader := must(js.CreateConsumer(t.Context(), jetstream.SignalsStream, natsjs.ConsumerConfig{Durable: "keda", FilterSubject: "forewarm.prescale.chat"}))
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
		return !slices.ContainsFunc(p.dispatcher.Stats(), func(s alerting.SinkStats) bool { return s.Sent == 0 && s.Sink != "report/folder" })
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

	// Each missing permission is named. One server has a user for each, who does not have it.
	all := c.DaemonRights()
	missing := append(slices.Clone(all.Publish), all.Subscribe...)
	o := &server.Options{Host: "127.0.0.1", Port: -1}
	for i, subject := range missing {
		some := &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: slices.DeleteFunc(slices.Clone(all.Publish), func(s string) bool { return s == subject })},
			Subscribe: &server.SubjectPermission{Allow: slices.DeleteFunc(slices.Clone(all.Subscribe), func(s string) bool { return s == subject })},
		}
		if i >= len(all.Publish) {
			some.Subscribe.Deny = []string{subject} // an empty list allows all
		}
		o.Users = append(o.Users, &server.User{Username: fmt.Sprint("u", i), Password: "p", Permissions: some})
	}
	url := testenv.StartNATSWith(t, o)
	for i, subject := range missing {
		conn := must(nats.Connect(strings.Replace(url, "nats://", fmt.Sprintf("nats://u%d:p@", i), 1)))
		err := c.CheckRights(t.Context(), conn)
		if want := strings.TrimSuffix(subject, ">"); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("without %s: %v", subject, err)
		}
		conn.Close()
	}
}
