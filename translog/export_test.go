package translog

import (
	"bytes"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// anExport is the body of a manifest that is as it should be.
func anExport(t testing.TB) Export {
	t.Helper()
	at, err := envelope.ParseTime("2026-11-03T12:00:00Z")
	if err != nil {
		t.Fatal(err)
	}
	h := func(b byte) (h envelope.Hash) { h[0], h[31] = b, 1; return h }
	return Export{
		Checkpoint: CheckpointRef{ObjectID: h(1), Root: h(2), Size: 7}, Files: 3, Format: "tct", Grants: []envelope.Hash{h(3), h(4)},
		Indexer: "spiffe://search.example/indexer", LogOrigin: "log.search.example", Pages: SetOf([][32]byte{h(5)}), Policies: []envelope.Hash{h(6)},
		Purpose: "search.index", Sums: h(7), Until: at,
	}
}

func TestAnExportNamesItsPermissionsInOrder(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(e *Export)
		ok     bool
	}{
		{"as it should be", func(*Export) {}, true},
		{"of nothing", func(e *Export) { e.Grants, e.Policies, e.Pages = nil, nil, SetOf(nil) }, true},
		{"a grant twice", func(e *Export) { e.Grants = append(e.Grants, e.Grants[1]) }, false},
		{"grants in disorder", func(e *Export) { e.Grants[0], e.Grants[1] = e.Grants[1], e.Grants[0] }, false},
		{"a policy twice", func(e *Export) { e.Policies = append(e.Policies, e.Policies[0]) }, false},
		{"too many grants", func(e *Export) {
			e.Grants = nil
			for i := range MaxExportGrants + 1 {
				e.Grants = append(e.Grants, envelope.Hash{byte(i >> 8), byte(i)})
			}
		}, false},
		{"no format", func(e *Export) { e.Format = "" }, false},
		{"no purpose", func(e *Export) { e.Purpose = "" }, false},
		{"no sums", func(e *Export) { e.Sums = envelope.Hash{} }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := anExport(t)
			tt.change(&e)
			if err := e.Validate(); (err == nil) != tt.ok {
				t.Errorf("Validate = %v", err)
			}
		})
	}
}

// TestASetIsTheSameRecordByRecord: a SetHasher keeps no record, and makes the set that
// SetOf makes of them all.
func TestASetIsTheSameRecordByRecord(t *testing.T) {
	h := NewSetHasher()
	var leaves [][32]byte
	for n := range 40 {
		if got, want := h.Set(), SetOf(leaves); got != want {
			t.Errorf("of %d records: %+v, want %+v", n, got, want)
		}
		record := []byte(strings.Repeat("x", n))
		h.Add(record)
		leaves = append(leaves, LeafHash(record))
	}
}

// FuzzExport: the body of an export's manifest is refused, or is the one form of what it
// says, with permissions in order.
func FuzzExport(f *testing.F) {
	good, err := envelope.Canonical(anExport(f))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(bytes.Replace(good, []byte(`"grants":[`), []byte(`"grants":null,"x":[`), 1))
	f.Add(bytes.Replace(good, []byte(`"files":3`), []byte(`"files":3.0`), 1))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var e Export
		if envelope.DecodeCanonical(raw, &e) != nil || e.Validate() != nil {
			return
		}
		again, err := envelope.Canonical(e)
		if err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%q becomes %q, %v", raw, again, err)
		}
		if len(e.Grants) > MaxExportGrants || len(e.Policies) > MaxExportGrants {
			t.Errorf("%d grants, %d policies", len(e.Grants), len(e.Policies))
		}
		for _, all := range [][]envelope.Hash{e.Grants, e.Policies} {
			for i := 1; i < len(all); i++ {
				if bytes.Compare(all[i-1][:], all[i][:]) >= 0 {
					t.Errorf("%x stands before %x", all[i-1], all[i])
				}
			}
		}
	})
}
