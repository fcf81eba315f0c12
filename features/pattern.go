package features

import "unicode/utf8"

// fits reports whether a pattern with * (any text) and ? (any one character) matches all of a value. O(pattern × value)
// at worst: only the last * is retried.
func fits(pattern, value string) bool {
	star, tried := -1, 0 // index of the last *, and the end of its text in value
	p, v := 0, 0
	for v < len(value) {
		_, width := utf8.DecodeRuneInString(value[v:])
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, tried = p, v
			p++
		case p < len(pattern) && pattern[p] == '?':
			p++
			v += width
		case p < len(pattern) && pattern[p] == value[v]:
			p++
			v++
		case star >= 0:
			_, width = utf8.DecodeRuneInString(value[tried:])
			tried += width
			p, v = star+1, tried
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}
