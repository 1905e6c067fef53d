package envelope

import (
	"errors"
	"testing"
)

func TestPositionsAdvanceByEpochThenSequence(t *testing.T) {
	x, y := Hash{1}, Hash{2}
	seen := Position{Epoch: 3, Sequence: 10, ID: x}
	for _, tt := range []struct {
		name  string
		seen  Position
		next  Position
		newer bool
		want  error
	}{
		{"the first of a stream", Position{}, Position{0, 0, x}, true, nil},
		{"a higher sequence", seen, Position{3, 11, y}, true, nil},
		{"the same object at a higher sequence", seen, Position{3, 11, x}, true, nil},
		{"a higher epoch with a lower sequence", seen, Position{4, 0, y}, true, nil},
		{"the exact replay", seen, seen, false, nil},
		{"a lower sequence", seen, Position{3, 9, y}, false, ErrStale},
		{"a lower epoch with a huge sequence", seen, Position{2, MaxInteger, y}, false, ErrStale},
		{"the same place with another object", seen, Position{3, 10, y}, false, ErrEquivocates},
		{"an object without a name", seen, Position{3, 11, Hash{}}, false, ErrObjectID},
		{"an object without a name, first of a stream", Position{}, Position{3, 11, Hash{}}, false, ErrObjectID},
		{"a stored place whose object was lost", Position{3, 10, Hash{}}, Position{3, 11, y}, false, ErrState},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := tt.seen
			newer, err := tt.seen.Advance(tt.next)
			if newer != tt.newer || !errors.Is(err, tt.want) {
				t.Errorf("Advance = %t, %v; want %t, %v", newer, err, tt.newer, tt.want)
			}
			if tt.seen != before {
				t.Errorf("the position seen became %v", tt.seen)
			}
		})
	}
}

func TestABadSignatureBlocksNoStream(t *testing.T) {
	a, b := rfcSigner(t, 0), rfcSigner(t, 1)
	ring := trustIn(record(a), record(b))
	var at Position
	take := func(raw []byte) error {
		o, err := Open(raw, new(note), Expecting(DiscoveryGrant, ring, noon))
		if err != nil {
			return err
		}
		if newer, err := at.Advance(o.Position()); err != nil || !newer {
			return err
		}
		at = o.Position()
		return nil
	}
	highest := forge(t, func(d doc) { d["sequence"] = uint64(MaxInteger) }, a)
	highest = firstSignature(t, highest, func(sig doc) { sig["key_id"] = b.Public().ID().String() })
	if err := take(highest); !errors.Is(err, ErrSignature) || at != (Position{}) {
		t.Fatalf("the highest sequence, badly signed: %v, now at %v", err, at)
	}
	if err := take(goodGrant(t)); err != nil || at.Sequence != 7 {
		t.Errorf("the next true object: %v, now at %v", err, at)
	}
}

func TestACorruptPositionIsNoPosition(t *testing.T) {
	const id = `"sha256:0101010101010101010101010101010101010101010101010101010101010101"`
	for _, tt := range []struct{ name, stored string }{
		{"nothing", ``},
		{"an empty object", `{}`},
		{"cut short", `{"epoch":1,"object_id":` + id},
		{"no sequence", `{"epoch":1,"object_id":` + id + `}`},
		{"a sequence too large", `{"epoch":1,"object_id":` + id + `,"sequence":9007199254740992}`},
		{"an object_id cut short", `{"epoch":1,"object_id":"sha256:01","sequence":1}`},
		{"zeros", "\x00\x00\x00\x00"},
	} {
		var p Position
		if err := DecodeCanonical([]byte(tt.stored), &p); err == nil {
			t.Errorf("%s: read as %v", tt.name, p)
		}
	}
	want := Position{Epoch: 1, Sequence: 2, ID: Hash{1}}
	raw, err := Canonical(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Position
	if err := DecodeCanonical(raw, &got); err != nil || got != want {
		t.Errorf("%s was read as %v, %v", raw, got, err)
	}
}
