package forecaster

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/forewarm/forewarm/features"
)

func mustEvent(t *testing.T, c EventConfig, zone *time.Location) Event {
	t.Helper()
	if c.Name == "" {
		c.Name, c.Pool = "launch", "p"
	}
	if c.Factor == 0 {
		c.Factor = 2
	}
	e, err := NewEvent(c, zone)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEventStrength(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	once := mustEvent(t, EventConfig{Start: "2026-12-01 09:00", Ramp: 10 * time.Minute, Duration: time.Hour}, berlin)
	sudden := mustEvent(t, EventConfig{Start: "2026-12-01T09:00:00-05:00", Duration: time.Hour}, berlin)
	daily := mustEvent(t, EventConfig{Start: "2026-03-27 09:00", Duration: time.Hour, Repeat: "daily"}, berlin)
	night := mustEvent(t, EventConfig{Start: "2026-03-27 23:30", Duration: 2 * time.Hour, Repeat: "daily"}, berlin)
	weekly := mustEvent(t, EventConfig{Start: "2026-12-01 23:00", Duration: 30 * time.Hour, Repeat: "weekly"}, nil) // a Tuesday
	for _, tc := range []struct {
		e    *Event
		at   string
		want float64
	}{
		{&once, "2026-12-01T07:59:59Z", 0}, {&once, "2026-12-01T08:05:00Z", .5}, {&once, "2026-12-01T08:10:00Z", 1},
		{&once, "2026-12-01T09:00:00Z", 1}, {&once, "2026-12-01T09:02:30Z", .75}, {&once, "2026-12-01T09:10:00Z", 0}, {&once, "2026-12-02T08:30:00Z", 0},
		{&sudden, "2026-12-01T13:59:59Z", 0}, {&sudden, "2026-12-01T14:00:00Z", 1}, {&sudden, "2026-12-01T15:00:00Z", 0},
		// From 29 March, summer time, nine o'clock is an hour earlier in UTC.
		{&daily, "2026-03-26T08:30:00Z", 0}, {&daily, "2026-03-28T08:30:00Z", 1}, {&daily, "2026-03-28T07:30:00Z", 0},
		{&daily, "2026-03-30T07:30:00Z", 1}, {&daily, "2026-03-30T08:30:00Z", 0},
		{&night, "2026-03-27T23:00:00Z", 1}, {&night, "2026-03-28T00:29:00Z", 1}, {&night, "2026-03-28T00:30:00Z", 0}, {&night, "2026-03-27T00:00:00Z", 0},
		{&weekly, "2026-12-08T22:59:00Z", 0}, {&weekly, "2026-12-08T23:00:00Z", 1}, {&weekly, "2026-12-10T04:59:00Z", 1},
		{&weekly, "2026-12-10T05:00:00Z", 0}, {&weekly, "2026-11-24T23:30:00Z", 0},
	} {
		at, err := time.Parse(time.RFC3339, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := tc.e.strength(at); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s %s at %s: %v, want %v", tc.e.Start, tc.e.Repeat, tc.at, got, tc.want)
		}
	}
}

func TestNewEventRefuses(t *testing.T) {
	for want, change := range map[string]func(c *EventConfig){
		"name: ":                    func(c *EventConfig) { c.Name = "" },
		"pool: ":                    func(c *EventConfig) { c.Pool = "" },
		`start: "tomorrow"`:         func(c *EventConfig) { c.Start = "tomorrow" },
		"factor: 0":                 func(c *EventConfig) { c.Factor = 0 },
		"factor: NaN":               func(c *EventConfig) { c.Factor = math.NaN() },
		"uncertainty: 0.5":          func(c *EventConfig) { c.Uncertainty = .5 },
		`repeat: "yearly"`:          func(c *EventConfig) { c.Repeat = "yearly" },
		"duration: 30s":             func(c *EventConfig) { c.Duration = 30 * time.Second },
		"ramp: 2h0m0s":              func(c *EventConfig) { c.Ramp = 2 * time.Hour },
		"duration: 20h0m0s":         func(c *EventConfig) { c.Repeat, c.Duration, c.Ramp = "daily", 20*time.Hour, 5*time.Hour },
		"must end within 168h0m0s":  func(c *EventConfig) { c.Duration = 8 * 24 * time.Hour },
		"ramp: -1m0s must be 0s to": func(c *EventConfig) { c.Ramp = -time.Minute },
	} {
		c := EventConfig{Name: "launch", Pool: "p", Start: "2026-12-01 09:00", Factor: 2}
		if _, err := NewEvent(c, nil); err != nil {
			t.Fatalf("valid event: %v", err)
		}
		change(&c)
		if _, err := NewEvent(c, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// launch is an event that multiplies demand by three for two hours from a minute on.
func launch(t *testing.T, minute int, repeat string) Config {
	return Config{Events: []Event{mustEvent(t, EventConfig{
		Name: "launch", Pool: "p", Start: minuteAt(minute).Format(time.RFC3339), Duration: 2 * time.Hour, Factor: 3, Uncertainty: 2, Repeat: repeat,
	}, nil)}}
}

// observeLaunch observes two classes of about 10 and 5 requests a second, multiplied by the factor of the minute.
func observeLaunch(f *Forecaster, from, to int, factor func(i int) float64) {
	for i := from; i < to; i++ {
		r := rand.New(rand.NewPCG(11, uint64(i)))
		noisy := func(y float64) float64 { return y * math.Exp(.1*r.NormFloat64()) }
		f.Observe([]features.Window{window("p", "a", i, noisy(10)*factor(i)), window("p", "b", i, noisy(5)*factor(i))},
			[]features.PoolMinute{{Pool: "p", Start: minuteAt(i), Covered: true, LastEvent: minuteAt(i)}})
	}
}

// launchMinute is when the launch begins.
const launchMinute = 3000

func factorBetween(from, to int, factor float64) func(int) float64 {
	return func(i int) float64 {
		if i >= from && i < to {
			return factor
		}
		return 1
	}
}

// quantileOf is a quantile of the requests of a class, or of the pool, h minutes ahead.
func quantileOf(f *Forecaster, class string, h, level int) float64 {
	pf := f.Forecast(minuteAt(0))[0]
	if class == features.TotalClass {
		return pf.Of(features.DimRequests).Minute[h-1][level]
	}
	return forecastOf(pf.Classes, class, features.DimRequests).Minute[h-1][level]
}

func expectAbout(t *testing.T, what string, got, want, by float64) {
	t.Helper()
	if !(math.Abs(got/want-1) <= by) {
		t.Errorf("%s: %.2f, want about %.2f", what, got, want)
	}
}

func TestForecastOfEvent(t *testing.T) {
	f, plain := New(launch(t, launchMinute, "")), New(Config{})
	for _, x := range []*Forecaster{f, plain} {
		observeLaunch(x, 0, launchMinute-20, factorBetween(0, 0, 1))
	}
	expectAbout(t, "the class before the event", quantileOf(f, "a", 20, L50), 10, .1)
	expectAbout(t, "the class in the event", quantileOf(f, "a", 25, L50), 30, .1)
	expectAbout(t, "another class", quantileOf(f, "b", 25, L50), 15, .1)
	expectAbout(t, "the pool", quantileOf(f, features.TotalClass, 25, L50), 45, .1)
	pf := f.Forecast(minuteAt(0))[0]
	sum := 0.0
	for _, path := range pf.Of(features.DimRequests).Paths {
		sum += float64(path[24]) / NumPaths
	}
	expectAbout(t, "the mean of the pool's paths", sum, 45, .15)
	expectAbout(t, "the pool's window maximum", pf.Of(features.DimRequests).WindowMax[L50], 47, .15)
	uncertain := quantileOf(f, "a", 25, L95) / quantileOf(f, "a", 25, L50)
	if usual := quantileOf(plain, "a", 25, L95) / quantileOf(plain, "a", 25, L50); uncertain < 1.3*usual {
		t.Errorf("95 %% quantile over median: %.2f with the event, %.2f without", uncertain, usual)
	}
}

// If the factor turns out to be other than stated, forecasts follow the demand, during the event and after it.
func TestEventOfAnotherFactor(t *testing.T) {
	f := New(launch(t, launchMinute, ""))
	observeLaunch(f, 0, launchMinute+60, factorBetween(launchMinute, launchMinute+120, 2))
	expectAbout(t, "the class during the event", quantileOf(f, "a", 20, L50), 20, .1)
	expectAbout(t, "the pool during the event", quantileOf(f, features.TotalClass, 20, L50), 30, .1)
	observeLaunch(f, launchMinute+60, launchMinute+160, factorBetween(launchMinute, launchMinute+120, 2))
	expectAbout(t, "the class after the event", quantileOf(f, "a", 20, L50), 10, .15)
}

// An event that does not come raises forecasts for less than half an hour. The day after an event that came, nothing is
// expected at the same time of day.
func TestEventThatDoesNotCome(t *testing.T) {
	f := New(launch(t, launchMinute, ""))
	observeLaunch(f, 0, launchMinute+30, factorBetween(0, 0, 1))
	if y := quantileOf(f, "a", 20, L50); y > 14 {
		t.Errorf("half an hour after the start of an event that did not come, %.1f requests are forecast, want about 10", y)
	}
	g := New(launch(t, launchMinute, ""))
	observeLaunch(g, 0, launchMinute+1440-10, factorBetween(launchMinute, launchMinute+120, 3))
	expectAbout(t, "the day after", quantileOf(g, "a", 20, L50), 10, .1)
}

// The load that forecasts are compared with includes the event, as the forecasts do.
func TestLoadInEvent(t *testing.T) {
	f := New(launch(t, launchMinute, ""))
	observeLaunch(f, 0, launchMinute+10, factorBetween(launchMinute, launchMinute+120, 3))
	load := 0.0
	for i := range 10 {
		load += f.Load("p", features.DimRequests, startMinute+launchMinute+int64(i)) / 10
	}
	expectAbout(t, "the pool's load in the event", load, 45, .1)
}

// An event is a rise of all classes, although the series do not learn it.
func TestDriversInEvent(t *testing.T) {
	f := New(launch(t, launchMinute, ""))
	for fed, m := 0, launchMinute+20; m <= launchMinute+50; fed, m = m, m+10 {
		observeLaunch(f, fed, m, factorBetween(launchMinute, launchMinute+120, 3))
		drivers := f.Drivers("p", features.DimRequests, 3)
		for _, d := range drivers {
			if d.Cause != CauseRate || math.Abs(d.Factor-3) > .5 {
				t.Errorf("minute %d of the event: %q has the cause %q and the factor %.1f", m-launchMinute, d.Class, d.Cause, d.Factor)
			}
		}
		if len(drivers) != 2 || math.Abs(drivers[0].Share-2./3) > .1 {
			t.Errorf("minute %d of the event: %+v, want two classes, the first with two thirds", m-launchMinute, drivers)
		}
	}
}

// A back-fill of days with a daily event is demand with the event, so the event is not forecast twice.
func TestBackfillOfEvent(t *testing.T) {
	const day, begins, days = 1440, 600, 8
	f := New(launch(t, begins, "daily"))
	r := rand.New(rand.NewPCG(12, 13))
	values := make([]float64, begins+days*day-20)
	for i := range values {
		values[i] = 10 * factorBetween(begins, begins+120, 3)(i%day) * math.Exp(.1*r.NormFloat64())
	}
	if err := f.Backfill("p", features.DimRequests, minuteAt(0), values); err != nil {
		t.Fatal(err)
	}
	f.Observe(nil, []features.PoolMinute{{Pool: "p", Start: minuteAt(len(values) - 1)}})
	expectAbout(t, "the pool before the event", quantileOf(f, features.TotalClass, 10, L50), 10, .1)
	expectAbout(t, "the pool in the event", quantileOf(f, features.TotalClass, 40, L50), 30, .1)
}

func TestMultiply(t *testing.T) {
	q := Quantiles{0, 0, 1, 4, 6, 7, 9, 12, 20}
	same, twice, wider := q, q, q
	multiply(&same, 0, 0)
	multiply(&twice, math.Log(2), 0)
	multiply(&wider, 0, .25)
	if same != q || math.Abs(twice[L50]-8) > 1e-9 || math.Abs(twice[L99]-40) > 1e-9 || twice[L05] != 0 {
		t.Errorf("%v; times two %v", same, twice)
	}
	if wider[L50] != 4 || wider[L99] <= 20 || wider[L25] >= 1 {
		t.Errorf("with an uncertain factor %v", wider)
	}
	silent := Quantiles{L95: 1, L99: 3}
	multiply(&silent, math.Log(2), .04)
	if silent[L90] != 0 || silent[L99] < 6 {
		t.Errorf("a mostly silent class: %v", silent)
	}
}
