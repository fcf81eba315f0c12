// Scales by Forewarm's pre-scale events, and tells it when replicas are ready: go run . nats://127.0.0.1:4222 chat ./scale.sh
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/nats-io/nats.go"
)

func main() {
	pool, script := os.Args[2], os.Args[3] // scale.sh N sets N replicas, and ends once they are ready
	js := must(must(nats.Connect(os.Args[1])).JetStream())
	events := must(js.SubscribeSync("forewarm.prescale."+pool, nats.OrderedConsumer(), nats.DeliverLastPerSubject()))
	overtake, newest, wanted := context.CancelFunc(func() {}), int64(0), -1
	for {
		var e alerting.Event
		m := must(events.NextMsgWithContext(context.Background()))
		if json.Unmarshal(m.Data, &e) != nil || e.Data.Mode != alerting.Active || e.Data.Generation <= newest ||
			e.Data.DesiredReplicas == wanted || time.Now().After(e.Data.ExpiresAt) {
			continue // not to be obeyed, out of order, nothing new, or lapsed
		}
		overtake() // the newest number counts, however long the one before takes
		ctx, cancel := context.WithCancel(context.Background())
		overtake, newest, wanted = cancel, e.Data.Generation, e.Data.DesiredReplicas
		go func() {
			if exec.CommandContext(ctx, script, strconv.Itoa(e.Data.DesiredReplicas)).Run() == nil && e.Data.Action == alerting.ScaleOut {
				answer := must(json.Marshal(map[string]any{"event_id": e.ID, "stage": "ready", "at": time.Now()}))
				must(js.Publish("forewarm.prescale.ack."+pool, answer))
			}
		}()
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
