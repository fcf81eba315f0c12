package value

import (
	"encoding/json"
	"math"
	"testing"
)

func TestNumberInJSON(t *testing.T) {
	got, err := json.Marshal([]Number{1.5, Unknown, Number(math.Inf(1))})
	if err != nil || string(got) != "[1.5,null,null]" {
		t.Errorf("%s, %v", got, err)
	}
}

func TestShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 3.214: "3.21", 999.4: "999", 999.6: "1k", 12345: "12.3k", -1.5e6: "-1.5M", 2e9: "2G", 5e15: "5e+03T", math.Inf(1): "–",
	} {
		if got := Short(v); got != want {
			t.Errorf("%g is %s, want %s", v, got, want)
		}
	}
	if got := Short(math.NaN()); got != "–" {
		t.Errorf("NaN is %s", got)
	}
}

func TestTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Percent(0), "0 %"}, {Percent(.0812), "8.1 %"}, {Percent(.0999), "10 %"}, {Percent(-.123), "−12 %"}, {Percent(Unknown), "–"}, {Percent(-.0001), "0.0 %"},
		{Percent(.0004), "<0.1 %"}, {Percent(-1098), "below −999 %"}, {Percent(-.5), "−50 %"}, {Percent(.996), ">99 %"}, {Percent(1), "100 %"},
		{Large(0), "0"}, {Large(5443), "5,440"}, {Large(7.456e6), "7.46 million"}, {Large(999_999), "1 million"}, {Large(1002), "1,000"}, {Large(12.34), "12.3"}, {Large(-1234), "-1,230"}, {Large(Unknown), "–"},
		{Dollars(.00427), "$0.00427"}, {Dollars(.0004), "$0.000400"}, {Dollars(13608), "$13,600"}, {Dollars(0), "$0"}, {Dollars(Unknown), "–"},
		{Minutes(13.6), "14 min"}, {Minutes(Unknown), "–"}, {Minutes(13), "13 min"}, {Minutes(.5), "30 s"}, {Minutes(240), "4 hours"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestCount(t *testing.T) {
	if a, b := Count(1, "pool"), Count(0, "pool"); a != "1 pool" || b != "0 pools" {
		t.Errorf("%s, %s", a, b)
	}
}

func TestDidYouMean(t *testing.T) {
	keys := []string{"name", "kv_target", "replicas", "reserves", "max_bytes", "serve"}
	for name, want := range map[string]string{
		"kv_targt": "kv_target", "nam": "name", "replica": "replicas", "srve": "serve", "serv": "serve", "zzzzz": "", "": "", "max_classes": "",
	} {
		if want != "" {
			want = `did you mean "` + want + `"?`
		}
		if got := DidYouMean(name, keys); got != want {
			t.Errorf("DidYouMean(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestRedacted(t *testing.T) {
	for urls, want := range map[string]string{
		"nats://u:p@h:4222":                    "nats://xxxxx@h:4222",
		"u:p@h:4222":                           "xxxxx@h:4222",
		"token@h":                              "xxxxx@h",
		"h1:4222,u:p/w@h2, tls://u:p@@h3":      "h1:4222,xxxxx@h2, tls://xxxxx@h3",
		"nats://u:p%2Fw%40@h,wss://token@h/ws": "nats://xxxxx@h,wss://xxxxx@h/ws",
		"nats://h1:4222,h2":                    "nats://h1:4222,h2",
		"nats://u:p,w@h":                       "nats://xxxxx@h",
		"nats://h1:4222,u:p,w@h2,h3:4222":      "nats://h1:4222,xxxxx@h2,h3:4222",
		"":                                     "",
	} {
		if got := Redacted(urls); got != want {
			t.Errorf("%q: got %q, want %q", urls, got, want)
		}
	}
}
