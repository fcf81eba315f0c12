// Package value has numbers that may be unknown, and texts of numbers for people.
package value

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Number is a number that may be unknown: NaN, null in JSON.
type Number float64

// Unknown is NaN: not measured, or not computable.
var Unknown = Number(math.NaN())

// Known reports whether n is finite.
func (n Number) Known() bool { return !math.IsNaN(float64(n)) && !math.IsInf(float64(n), 0) }

// MarshalJSON encodes a number that is not finite as null.
func (n Number) MarshalJSON() ([]byte, error) {
	if !n.Known() {
		return []byte("null"), nil
	}
	return json.Marshal(float64(n))
}

// Instant is t in UTC; nil for the zero time, which is null in JSON.
func Instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// WriteJSON writes v as indented JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Share is a part divided by the whole; NaN if the whole is not above 0.
func Share(part, whole float64) float64 {
	if !(whole > 0) {
		return math.NaN()
	}
	return part / whole
}

// Highest is the largest known value; 0 if no value is above 0.
func Highest[T ~float64](lists ...[]T) (top float64) {
	for _, list := range lists {
		for _, v := range list {
			if float64(v) > top {
				top = float64(v)
			}
		}
	}
	return top
}

// Short writes v in up to three digits with k, M, G or T: 1.35k; – if it is unknown.
func Short(v float64) string {
	if !Number(v).Known() {
		return "–"
	}
	unit := ""
	for _, larger := range []string{"k", "M", "G", "T"} {
		if math.Abs(v) < 999.5 {
			break
		}
		v, unit = v/1000, larger
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + unit
}

// Large writes a number in three digits: 5,440, 7.46 million.
func Large(n Number) string {
	v, _ := strconv.ParseFloat(strconv.FormatFloat(float64(n), 'g', 3, 64), 64)
	if text := Short(v); !n.Known() || math.Abs(v) < 1000 || math.Abs(v) >= 1e6 {
		return strings.NewReplacer("M", " million", "G", " billion", "T", " trillion").Replace(text)
	}
	return fmt.Sprintf("%.0f,%03.0f", math.Trunc(v/1000), math.Mod(math.Abs(v), 1000))
}

// Dollars writes an amount of money in three digits.
func Dollars(usd Number) string {
	switch v := float64(usd); {
	case !usd.Known():
		return "–"
	case v > 0 && v < 1:
		return "$" + strconv.FormatFloat(v, 'f', 2-int(math.Floor(math.Log10(v))), 64)
	}
	return "$" + Large(usd)
}

// Percent writes a share in percent, below ten with one decimal. A share below the whole is never shown as 100 %.
func Percent(share Number) string {
	p, digits := 100*float64(share), 0
	switch {
	case !share.Known():
		return "–"
	case p > 0 && p < .05:
		return "<0.1 %"
	case p < 100 && p >= 99.5:
		return ">99 %"
	case p > 999:
		return "above 999 %"
	case p < -999:
		return "below −999 %"
	case p != 0 && math.Abs(p) < 9.95:
		digits = 1
	}
	scale := math.Pow10(digits)
	return strings.Replace(strconv.FormatFloat(math.Round(p*scale)/scale+0, 'f', digits, 64), "-", "−", 1) + " %" // + 0 makes 0 of −0
}

// Minutes writes a number of minutes as a person would say it: in seconds, minutes, hours or days.
func Minutes(n Number) string {
	switch v := float64(n); {
	case !n.Known():
		return "–"
	case v < 1:
		return fmt.Sprintf("%.0f s", 60*v)
	case v < 3*60:
		return fmt.Sprintf("%.0f min", v)
	case v < 3*24*60:
		return fmt.Sprintf("%.0f hours", v/60)
	default:
		return fmt.Sprintf("%.0f days", v/60/24)
	}
}

// Count writes "1 minute", "2 minutes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Printable makes text safe to show: a server's response may contain anything.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)
}

// Cut cuts a text to limit characters.
func Cut(s string, limit int) string {
	if r := []rune(s); len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return s
}

// credentials finds what is before the @ of each URL. Schemes are optional, and a password may have a comma.
var credentials = regexp.MustCompile(`(^|,)(\s*[A-Za-z][A-Za-z0-9+.-]*://|\s*)(?:[^,@/]*:[^,@/]*[^0-9,@/][^@]*,)?[^,]*@`)

// Redacted hides users, passwords and tokens in a list of URLs.
func Redacted(urls string) string { return credentials.ReplaceAllString(urls, "${1}${2}xxxxx@") }

// DidYouMean asks whether the candidate that is most like an unknown name is meant. Apart from a common beginning and end,
// the two differ in at most three characters, and in no more than they share. It is "" if no candidate does.
func DidYouMean(name string, candidates []string) (question string) {
	least := 4
	for _, c := range candidates {
		from, to, limit := 0, 0, min(len(name), len(c))
		for from < limit && name[from] == c[from] {
			from++
		}
		for from+to < limit && name[len(name)-1-to] == c[len(c)-1-to] {
			to++
		}
		if n := max(len(name), len(c)) - from - to; n < least && n <= from+to {
			question, least = fmt.Sprintf("did you mean %q?", c), n
		}
	}
	return question
}
