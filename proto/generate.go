// Package proto holds the protocol buffer definitions of the session between
// publisher and indexer. The generated Go code stands beside its definitions;
// `make gen` makes it anew, and `make lint` fails if that would change it.
package proto

//go:generate go tool -modfile=../tools/go.mod buf generate -o .. --template ../buf.gen.yaml ..
