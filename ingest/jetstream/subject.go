package jetstream

import "strings"

// isPrefix says whether prefix is one or more tokens of a subject, none of them a wildcard.
func isPrefix(prefix string) bool { return isSubject(prefix) && !strings.ContainsAny(prefix, "*>") }

// isSubject says whether subject is one that clients may publish to, or a pattern of such with the wildcards * and >.
func isSubject(subject string) bool {
	ended := false
	for token := range strings.SplitSeq(subject, ".") {
		wild := token == "*" || token == ">"
		if ended || token == "" || !wild && strings.ContainsAny(token, "*> \t\r\n") {
			return false
		}
		ended = token == ">"
	}
	return !strings.HasPrefix(subject, "$")
}

// covers says whether every subject that want matches is matched by have too. Both may hold the wildcards * and >.
func covers(have, want string) bool {
	for {
		h, haveRest, haveMore := strings.Cut(have, ".")
		w, wantRest, wantMore := strings.Cut(want, ".")
		switch {
		case h == ">":
			return true
		case w == ">", h != "*" && h != w:
			return false
		case !haveMore || !wantMore:
			return haveMore == wantMore
		}
		have, want = haveRest, wantRest
	}
}

// overlap says whether a subject is matched by both a and b.
func overlap(a, b string) bool {
	for {
		x, aRest, aMore := strings.Cut(a, ".")
		y, bRest, bMore := strings.Cut(b, ".")
		switch {
		case x == ">" || y == ">":
			return true
		case x != "*" && y != "*" && x != y:
			return false
		case !aMore || !bMore:
			return aMore == bMore
		}
		a, b = aRest, bRest
	}
}
