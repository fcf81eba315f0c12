// Command prescale scales by Forewarm's pre-scale events, and reports when replicas are ready:
//
//	go run . nats://127.0.0.1:4222 chat ./scale.sh
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/nats-io/nats.go"
)

func main() {
	js, pool := must(must(nats.Connect(os.Args[1])).JetStream()), os.Args[2]
	overtake, newest, wanted := func() {}, int64(0), -1
	for m, err := range must(js.SubscribeSync("forewarm.prescale."+pool, nats.OrderedConsumer(), nats.DeliverLastPerSubject())).Msgs() {
		var event alerting.Event
		err := json.Unmarshal(must(m, err).Data, &event)
		e := event.Data
		if err != nil || e.Mode != alerting.Active || e.Withheld != "" || e.Generation <= newest || e.DesiredReplicas == wanted || time.Now().After(e.ExpiresAt) {
			continue // not to be obeyed, out of order, nothing new, or lapsed
		}
		overtake() // the newest number counts, however long the one before takes
		ctx, cancel := context.WithCancel(context.Background())
		overtake, newest, wanted = cancel, e.Generation, e.DesiredReplicas
		go func() { // the script sets so many replicas, and ends once they are ready
			if exec.CommandContext(ctx, os.Args[3], fmt.Sprint(e.DesiredReplicas)).Run() == nil && e.Action == alerting.ScaleOut {
				must(js.Publish("forewarm.prescale.ack."+pool, fmt.Appendf(nil, `{"event_id":%q,"stage":"ready","at":%d}`, e.ID, time.Now().UnixMilli())))
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
