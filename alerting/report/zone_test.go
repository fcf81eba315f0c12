package report

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/forewarm/forewarm/internal/draw"
)

func berlin(t *testing.T) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// TestZone: times for people are in the report's time zone. Those in JSON are in UTC, next to the name of the zone.
func TestZone(t *testing.T) {
	utc, r := withTimeline(), withTimeline()
	r.Zone, r.Timezone = berlin(t), "Europe/Berlin"
	r.summarise()
	if as, want := rendered(t, r, "json"), rendered(t, utc, "json"); !strings.Contains(as, `"timezone": "Europe/Berlin"`) || !strings.Contains(want, `"timezone": "UTC"`) ||
		strings.Count(as, `Z",`) != strings.Count(want, `Z",`) || strings.Contains(as, "+01:00") {
		t.Error("the JSON has other times than in UTC, or does not name the zone")
	}
	for _, name := range []string{"md", "html"} {
		if got := rendered(t, r, name); !strings.Contains(got, "Europe/Berlin") || strings.Contains(got, "UTC") {
			t.Errorf("the %s does not name the time zone, or names another", name)
		}
		if got := rendered(t, utc, name); !strings.Contains(got, "UTC") || strings.Contains(got, "Europe/Berlin") {
			t.Errorf("the %s in UTC does not name UTC, or names another time zone", name)
		}
	}
	start := r.Pools[0].Saturation.Episodes[0].Start
	for _, name := range []string{"md", "html"} {
		here, there := start.UTC().Add(time.Hour).Format("Mon 2 Jan 15:04"), start.UTC().Format("Mon 2 Jan 15:04")
		if got := rendered(t, r, name); !strings.Contains(got, here) {
			t.Errorf("the %s does not have %s, the time of the first saturation", name, here)
		}
		if got := rendered(t, utc, name); !strings.Contains(got, there) {
			t.Errorf("the %s in UTC does not have %s, the time of the first saturation", name, there)
		}
	}
	if r.Pools[0].Saturation.Episodes[0].Start != start || start.Location() != time.UTC {
		t.Error("rendering changed the report")
	}
}

// TestDaysOfClockChanges: on days of clock changes, the marks of a chart are at local midnights and local hours.
func TestDaysOfClockChanges(t *testing.T) {
	marks := func(from, to time.Time) (labels []string) {
		c := draw.New(4000, 100, "", "", to.Sub(from).Minutes(), 1)
		c.Days(from)
		for _, part := range strings.Split(c.String(), `<text `)[1:] {
			x, text, _ := strings.Cut(part, ">")
			text, _, _ = strings.Cut(text, "<")
			_, x, _ = strings.Cut(x, `x="`)
			x, _, _ = strings.Cut(x, `"`)
			labels = append(labels, text+" at "+x)
		}
		return labels
	}
	at := func(month time.Month, day, hour int) time.Time {
		return time.Date(2026, month, day, hour, 0, 0, 0, berlin(t))
	}
	x := func(from, to, t time.Time) string {
		c := draw.New(4000, 100, "", "", to.Sub(from).Minutes(), 1)
		return fmt.Sprintf("%.1f", c.X(t.Sub(from).Minutes())+3)
	}
	from, to := at(time.October, 23, 0), at(time.October, 27, 0)
	want := []string{"Fri 23 Oct", "Sat 24 Oct", "Sun 25 Oct", "Mon 26 Oct"}
	for i := range want {
		want[i] += " at " + x(from, to, at(time.October, 23+i, 0))
	}
	if diff := cmp.Diff(want, marks(from, to)); diff != "" {
		t.Errorf("−want +got:\n%s", diff)
	}
	from, to = at(time.March, 29, 0), at(time.March, 29, 6)
	want = nil
	for _, hour := range []int{0, 1, 3, 4, 5} { // at 2 clocks are set to 3
		want = append(want, at(time.March, 29, hour).Format("15:04")+" at "+x(from, to, at(time.March, 29, hour)))
	}
	if diff := cmp.Diff(want, marks(from, to)); diff != "" {
		t.Errorf("−want +got:\n%s", diff)
	}
}

// TestMarksThatAreLeftOut: a caption says so when not all saturations are marked.
func TestMarksThatAreLeftOut(t *testing.T) {
	r := withTimeline()
	p := &r.Pools[0]
	p.Saturation.Episodes = p.Saturation.Episodes[:1]
	const want = "Only the first 200 of 201 such times are hatched."
	if f := r.loadChart(p, &p.Timeline.Resources[0]); strings.Contains(f.Caption, "Only the first") {
		t.Error(f.Caption)
	}
	for len(p.Saturation.Episodes) <= marksDrawn {
		p.Saturation.Episodes = append(p.Saturation.Episodes, p.Saturation.Episodes[0])
	}
	if f := r.loadChart(p, &p.Timeline.Resources[0]); !strings.Contains(f.Caption, want) {
		t.Error(f.Caption)
	}
}
