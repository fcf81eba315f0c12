// Package config combines the Config of all packages in one file, reads it strictly, and reports each error in one
// line.
//
// The error for an unknown key names the nearest known key. The error for a value out of bounds names the bound and the
// fix. The environment variable FOREWARM_SECTION_KEY overrides a scalar key of the file. Secrets are in files named by
// keys ending in _file, or in the environment, never in the configuration itself. Relative paths are relative to the
// file.
//
// Bounds: a file has at most [MaxBytes].
package config
