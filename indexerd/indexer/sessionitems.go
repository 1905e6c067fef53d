package indexer

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// The fields of Items, Item and Path in which another message, or a list of any
// length, lies.
const (
	fieldItems     protowire.Number = 1
	fieldScopePath protowire.Number = 7
	fieldHashes    protowire.Number = 1
)

// readItems reads an Items message of at most so many items. It counts before it
// builds anything: an empty item takes two octets of the message, and fifty
// times as many in memory (TestTinyItemsAreCountedBeforeTheyAreBuilt).
func readItems(raw []byte, most int) ([]*oiv1.Item, error) {
	count := 0
	for v, err := range fields(raw, fieldItems) {
		if err != nil {
			return nil, refuse(grants.ErrMalformed, "items: %v", err)
		}
		if count++; count > most {
			return nil, refuse(grants.ErrOversize, "more than %d items", most)
		}
		hashes := 0
		for path, err := range fields(v, fieldScopePath) {
			if err != nil {
				return nil, refuse(grants.ErrMalformed, "item %d: %v", count-1, err)
			}
			for range fields(path, fieldHashes) {
				if hashes++; hashes > grants.MaxPath {
					return nil, refuse(grants.ErrMalformed, "item %d: a path of more than %d hashes", count-1, grants.MaxPath)
				}
			}
		}
	}
	var list oiv1.Items
	if err := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(raw, &list); err != nil {
		return nil, refuse(grants.ErrMalformed, "items: %v", err)
	}
	return list.Items, nil
}

// fields yields the values of one field of a message, each of which is a message,
// octets or text. It ends behind an error.
func fields(message []byte, field protowire.Number) func(yield func([]byte, error) bool) {
	return func(yield func([]byte, error) bool) {
		for len(message) > 0 {
			number, kind, n := protowire.ConsumeTag(message)
			if n < 0 {
				yield(nil, protowire.ParseError(n))
				return
			}
			message = message[n:]
			size := protowire.ConsumeFieldValue(number, kind, message)
			if size < 0 {
				yield(nil, protowire.ParseError(size))
				return
			}
			if number == field && kind == protowire.BytesType {
				v, _ := protowire.ConsumeBytes(message)
				if !yield(v, nil) {
					return
				}
			}
			message = message[size:]
		}
	}
}
