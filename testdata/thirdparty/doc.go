// Package thirdparty reads a running log with code that others wrote. It is a
// module of its own, so that what only these tests need is not a requirement of
// the programs.
package thirdparty
