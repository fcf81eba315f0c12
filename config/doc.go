// Package config assembles every package's own Config into one file, reads it strictly, and says what is wrong with it
// in one line each.
//
// A key that nobody knows is an error that names the nearest known key; a value out of its bound is an error that names
// the bound and the mend. Every scalar key can be set from the environment as FOREWARM_SECTION_KEY, which wins over the
// file. Secrets come from files that keys ending in _file name, or from the environment, never from the configuration
// itself. Relative paths in the file are relative to it.
//
// Bounds: a file holds at most [MaxBytes], and expands (with YAML aliases) to at most [MaxNodes] values.
package config
