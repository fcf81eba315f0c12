// Command prescale runs a script with the number of replicas that a pool should have, by Forewarm's pre-scale events. It
// reports when new replicas are ready:
//
//	go run . nats://127.0.0.1:4222 chat ./scale.sh
//
// The script ends with code 0 once the replicas are ready. If it fails, it runs again when Forewarm renews the event.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/forewarm/forewarm/alerting"
	"github.com/nats-io/nats.go"
)

func main() {
	js := must(must(nats.Connect(os.Args[1])).JetStream())
	pool, script := os.Args[2], os.Args[3]
	events := must(js.SubscribeSync("forewarm.prescale."+pool, nats.OrderedConsumer(), nats.DeliverLastPerSubject()))
	newest, stop := int64(0), func() {} // generation, and the end of the script that runs
	var wanted atomic.Int64             // replicas that the script has set, or is about to; -1 if it failed
	wanted.Store(-1)
	for m, err := range events.Msgs() {
		var event alerting.Event
		if invalid := json.Unmarshal(must(m, err).Data, &event); invalid != nil {
			log.Print("not a pre-scale event: ", invalid)
			continue
		}
		e := event.Data
		if !obey(&e, newest) {
			continue
		}
		newest = e.Generation
		n := int64(e.DesiredReplicas)
		if wanted.Swap(n) == n {
			continue
		}
		stop() // a new number does not wait until the one before is ready
		ctx, cancel := context.WithCancel(context.Background())
		stop = cancel
		go func() {
			command := exec.CommandContext(ctx, script, fmt.Sprint(n))
			command.Stdout, command.Stderr = os.Stdout, os.Stderr
			err := command.Run()
			if err != nil && ctx.Err() == nil {
				log.Printf("%s %d failed: %v", script, n, err)
				wanted.CompareAndSwap(n, -1)
			}
			if err == nil && e.Action == alerting.ScaleOut {
				ready := fmt.Appendf(nil, `{"event_id":%q,"stage":"ready","at":%d}`, e.ID, time.Now().UnixMilli())
				if _, err := js.Publish("forewarm.prescale.ack."+pool, ready); err != nil {
					log.Print("acknowledgement: ", err)
				}
			}
		}()
	}
}

// obey reports whether a consumer may follow an event now. newest is the highest generation so far.
func obey(e *alerting.Prescale, newest int64) bool {
	switch {
	case e.Mode != alerting.Active: // it only says what it would do
	case e.Withheld != "": // the number is not certain enough
	case e.Generation < newest: // out of order
	case time.Now().After(e.ExpiresAt): // the daemon may be dead
	default:
		return true
	}
	return false
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
