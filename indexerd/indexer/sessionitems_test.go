package indexer

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

func TestTinyItemsAreCountedBeforeTheyAreBuilt(t *testing.T) {
	const most, size = 8192, 8 << 20
	hashes := bytes.Repeat([]byte{0x0a, 0}, size/2-16) // empty ones
	tests := []struct {
		name string
		raw  []byte
		want error
	}{
		{"millions of empty items", bytes.Repeat([]byte{0x0a, 0}, size/2), grants.ErrOversize},
		{"one item with a path of millions of empty hashes", nested(fieldTag(1), nested(fieldTag(7), hashes)), grants.ErrMalformed},
		{"one item with many paths", nested(fieldTag(1), bytes.Repeat(nested(fieldTag(7), []byte{0x0a, 0}), grants.MaxPath+1)), grants.ErrMalformed},
		{"items that end too early", []byte{0x0a, 5, 1}, grants.ErrMalformed},
		{"a path that ends too early", nested(fieldTag(1), []byte{0x3a, 9}), grants.ErrMalformed},
		{"no message at all", []byte{0xff}, grants.ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			items, err := readItems(tt.raw, most)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, tt.want) || items != nil {
				t.Errorf("%d items, %v, want %v", len(items), err, tt.want)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
				t.Errorf("%d octets of memory for %d of a message", used, len(tt.raw))
			}
		})
	}
}

// FuzzReadItems compares with what reads without counting.
func FuzzReadItems(f *testing.F) {
	good, err := proto.Marshal(&oiv1.Items{Items: []*oiv1.Item{
		{Op: oiv1.Op_OP_PUT, RevisionDelta: 1, Url: "https://a.example/", ScopePath: &oiv1.Path{Hashes: [][]byte{make([]byte, 32)}}}, {}, nil,
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0x0a, 0})
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := readItems(raw, 8)
		var want oiv1.Items
		bad := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(raw, &want)
		switch {
		case errors.Is(err, grants.ErrOversize), err != nil && len(raw) > 2*grants.MaxPath:
		case (err == nil) != (bad == nil):
			t.Errorf("%v; the library says %v", err, bad)
		case err == nil && !proto.Equal(&oiv1.Items{Items: got}, &want):
			t.Errorf("read %v, want %v", got, want.Items)
		}
	})
}

func fieldTag(n byte) byte { return n<<3 | 2 }

// nested is one field with a message in it.
func nested(tag byte, message []byte) []byte {
	b := []byte{tag}
	for n := len(message); ; n >>= 7 {
		if n < 0x80 {
			b = append(b, byte(n))
			break
		}
		b = append(b, byte(n)|0x80)
	}
	return append(b, message...)
}
