// Package peer holds what is measured against one another: our log, Tessera's
// POSIX driver, Pebble by itself, and what the machine can do at best. Each is
// opened in a folder of its own on the same disk.
//
// Each Add takes an entry and returns once the entry is durable and in the
// tree. Its octets are the caller's again then.
package peer
