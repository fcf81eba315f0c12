package server

import (
	"testing"
	"time"

	"github.com/forewarm/forewarm/pipeline"
)

func TestBoardForgets(t *testing.T) {
	b := &Board{}
	b.Observe(&pipeline.Output{Pools: []pipeline.PoolOutput{{Pool: "chat"}}})
	b.Observe(&pipeline.Output{Pools: []pipeline.PoolOutput{{Pool: "other"}}})
	if len(b.Pools()) != 1 || b.Pools()[0].Pool != "other" {
		t.Errorf("pools %v, want only other", b.Pools())
	}
	b.Observe(&pipeline.Output{Pools: []pipeline.PoolOutput{}}) // the only pool was forgotten
	if len(b.Pools()) > 0 {
		t.Errorf("pools %v, want none", b.Pools())
	}
}

func TestBoardKeepsTheLastDecision(t *testing.T) {
	b, out := &Board{}, fullOutput()
	b.Observe(out)
	b.Observe(&pipeline.Output{Tick: origin.Add(time.Minute)}) // a tick without decisions
	chat := b.Pools()[1]
	if chat.Decision == nil || chat.Decision.Constraints[0].Key != "replicas.max" {
		t.Errorf("the decision was lost: %+v", chat.Decision)
	}
	if len(chat.Alerts) != 1 || chat.Alerts[0].Labels["severity"] != "warning" {
		t.Errorf("alerts: got %+v, want the firing one", chat.Alerts)
	}
}
