package alerting

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSelfConditions(t *testing.T) {
	const window = 15 * time.Minute
	tests := map[string]struct {
		vitals Vitals
		want   []string // name, resource, summary, description
	}{
		"no problem":                {vitals: Vitals{Window: window, Records: 1000, Sinks: []SinkStats{{Sink: "nats"}}}},
		"no records":                {vitals: Vitals{Window: window}},
		"one in a thousand refused": {vitals: Vitals{Window: window, Records: 99_900, Refused: map[string]uint64{"bad_time": 100}}},
		"few records":               {vitals: Vitals{Window: window, Records: 20, Refused: map[string]uint64{"bad_time": 19}}},
		"most of a few refused": {vitals: Vitals{Window: window, Records: 4, Refused: map[string]uint64{"late": 5}, Refusals: "5 records of producer gw"}, want: []string{
			"ForewarmInputDropped", "", "Forewarm refuses 56 % of the telemetry", "In 15 min 5 of 9 records were refused, most often as late. Demand is higher than Forewarm sees. 5 records of producer gw."}},
		"refused": {vitals: Vitals{Window: window, Records: 1100, Refused: map[string]uint64{"bad_time": 60, "unknown_pool": 30, "too_deep": 6, "not_json": 4}}, want: []string{
			"ForewarmInputDropped", "", "Forewarm refuses 8.3 % of the telemetry", "In 15 min 100 of 1200 records were refused, most often as bad_time. Demand is higher than Forewarm sees."}},
		"lost": {vitals: Vitals{Window: window, Records: 10, Lost: 7}, want: []string{
			"ForewarmInputDropped", "", "7 messages were lost from the telemetry stream in 15 min", "They left the stream before Forewarm read them. Demand was higher than Forewarm sees."}},
		"full disk": {vitals: Vitals{Window: window, Storage: "series: the disk of /data is full", StorageSince: noon}, want: []string{
			"ForewarmStorageDegraded", "", "Some data has not been stored since 12:00 UTC", "Series: the disk of /data is full. Decisions and alerts go on from memory. What is not stored will be missing in reports."}},
		"diverged": {vitals: Vitals{Window: window, Diverged: 2, Divergence: "chat at 12:00"}, want: []string{
			"ForewarmDecisionsDiverge", "", "Two daemons decided differently 2 times in 15 min", "The decision that was logged first counts. The newest difference: chat at 12:00."}},
		"sinks": {vitals: Vitals{Window: window, Sinks: []SinkStats{
			{Sink: "nats"}, {Sink: "alertmanager/am:9093", Since: noon, Err: "post to alertmanager/am:9093: connection refused", Queued: 3, Failed: 2},
			{Sink: "webhook/ops", Disabled: true, Err: "post to webhook/ops: 410 Gone"}}}, want: []string{
			"ForewarmSinkFailing", "alertmanager/am:9093", "Forewarm has failed to deliver to alertmanager/am:9093 since 12:00 UTC", "Waiting notifications at the last attempt: 3. Refused, and so lost: 2. The newest error: post to alertmanager/am:9093: connection refused. Other receivers are not affected.",
			"ForewarmSinkFailing", "webhook/ops", "Forewarm sends nothing to webhook/ops until it is restarted", "The receiver answered that it is gone: post to webhook/ops: 410 Gone. Other receivers are not affected."}},
	}
	long := strings.TrimSuffix(strings.Repeat("a cause in many words, ", 40), ", ")
	for name, vitals := range map[string]Vitals{
		"long refusals": {Window: window, Records: 4, Refused: map[string]uint64{"late": 500}, Refusals: long + "; " + long},
		"long faults":   {Window: window, Storage: long, StorageSince: noon, Diverged: 1, Divergence: long, Sinks: []SinkStats{{Sink: long, Since: noon, Err: long}, {Sink: long, Disabled: true, Err: long}}},
	} {
		for _, c := range SelfConditions(&vitals, DefaultConfig()) {
			checkWords(t, name, &c)
		}
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range SelfConditions(&tt.vitals, DefaultConfig()) {
				checkWords(t, name, &c)
				got = append(got, string(c.Name), c.Resource, c.Annotations["summary"], c.Annotations["description"])
				if c.Severity != Warning || c.Annotations["runbook_url"] == "" || c.Pool != "" {
					t.Errorf("%+v", c)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The watchdog keeps its labels and its start, so that it is one alert.
func TestWatchdog(t *testing.T) {
	first, second := NewWatchdog(noon, noon, DefaultConfig()), NewWatchdog(noon, noon.Add(time.Minute), DefaultConfig())
	if diff := cmp.Diff(first.Labels, second.Labels); diff != "" || !first.StartsAt.Equal(second.StartsAt) || !second.EndsAt.Equal(noon.Add(5*time.Minute)) {
		t.Errorf("%+v, then %+v", first, second)
	}
}
