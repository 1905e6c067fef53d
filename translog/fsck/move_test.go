package fsck

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestASoundLogHasNoFindings(t *testing.T) {
	r := newRig(t)
	defer r.close()
	for _, n := range []int{0, 1, 254, 1, 1, 263} {
		if n > 0 {
			r.grow(n)
		}
		for _, published := range []bool{false, true} {
			if published {
				r.publish()
			}
			got := run(t, r.store, r.options())
			tree := r.log.Released().Tree
			if !got.OK() || got.TreeSize != tree.Size || got.Entries != tree.Size || got.Sets != tree.Size || [32]byte(got.Root) != tree.Root {
				t.Errorf("size %d: %+v", tree.Size, got)
			}
		}
	}
}

// TestEveryRowThatMovesIsFound takes rows of each kind away, and writes them to
// places that are another's or nobody's.
func TestEveryRowThatMovesIsFound(t *testing.T) {
	rows, o := sample(t, steps()...)
	o.Signatures = false
	rng := rand.New(rand.NewPCG(1, 2))
	find := func(changed table, kind Kind, key, what string) {
		t.Helper()
		r := run(t, changed, o)
		if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Key == key && (kind == "" || f.Kind == kind) }) {
			t.Errorf("%s: no finding %s %q among %v", what, kind, key, r.Findings[:min(len(r.Findings), 5)])
		}
	}
	for i, row := range rows {
		k := translog.ParseRowKey(row.Key)
		if numbered := k.Kind == translog.RowEntry || k.Kind == translog.RowSet; numbered && i%151 != 0 && k.Number < 599 {
			continue // some, and the last one
		}
		switch name := names(k, 0)[0]; k.Kind {
		case translog.RowTile:
			find(rows.with(row.Key, nil), Missing, k.String(), "taken away")
		case translog.RowEntry, translog.RowSet:
			find(rows.with(row.Key, nil), Missing, name, "taken away")
		case translog.RowPublished:
			if r := run(t, rows.with(row.Key, nil), o); r.OK() {
				t.Errorf("%s was taken away, and nothing is found", name)
			}
			continue
		default:
			find(rows.with(row.Key, nil), "", name, "taken away")
			continue
		}
		// In the place of a neighbour, and the neighbour in its place.
		other, there := k, uint64(600)
		if k.Kind == translog.RowTile {
			there = 2
		}
		for other.Number == k.Number {
			other.Number = rng.Uint64N(there)
		}
		theirs, err := rows.Get(other.Bytes())
		check(t, err)
		if k.Kind == translog.RowSet && string(theirs) == string(row.Value) {
			t.Fatal("two sets are the same")
		}
		name := k.String()
		if k.Kind == translog.RowTile {
			name = fmt.Sprintf("entry %d", k.Number*256)
		}
		find(rows.with(other.Bytes(), row.Value).with(row.Key, theirs), "", name, "exchanged with "+other.String())
		// Once more, behind the end.
		other.Number = 600
		find(rows.with(other.Bytes(), row.Value), Stray, other.String(), "written twice")
	}
}

func TestWhatHasNoPlaceIsFound(t *testing.T) {
	rows, o := sample(t, steps()...)
	o.Signatures = false
	published, err := rows.Get(translog.RowKey{Kind: translog.RowPublished, Number: 600}.Bytes())
	check(t, err)
	for _, tt := range []struct {
		name string
		key  []byte
	}{
		{"a prefix that nobody has", []byte("Lq")},
		{"an entry's key cut short", []byte("Le\x00\x00\x00\x00\x00\x00\x01")},
		{"an entry's key with more behind it", []byte("Le\x00\x00\x00\x00\x00\x00\x00\x01\x00")},
		{"a set's key cut short", []byte("Ls\x00")},
		{"a tile of another level", translog.RowKey{Kind: translog.RowTile, Level: 1}.Bytes()},
		{"the tile at the edge", translog.RowKey{Kind: translog.RowTile, Number: 2}.Bytes()},
		{"a checkpoint of a size that is to come", translog.RowKey{Kind: translog.RowPublished, Number: 601}.Bytes()},
		{"a checkpoint at a size that was not published", translog.RowKey{Kind: translog.RowPublished, Number: 599}.Bytes()},
		{"a row of a log that was never begun", translog.RowKey{Kind: translog.RowEntry, Log: 1, Number: 0}.Bytes()},
		{"the first key of all", []byte("L")},
		{"the last key of all", []byte("L\xff\xff")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r := run(t, rows.with(tt.key, published), o); r.OK() {
				t.Error("nothing is found")
			}
		})
	}
}

func TestTheMarkIsCompared(t *testing.T) {
	rows, o := sample(t, steps()...)
	sound := *o.Mark
	for _, tt := range []struct {
		name   string
		change func(m *translog.Tree) *translog.Tree
		found  bool
	}{
		{"it is the store's", func(m *translog.Tree) *translog.Tree { return m }, false},
		{"it is ahead of the store", func(m *translog.Tree) *translog.Tree { m.Size++; return m }, true},
		{"it has another root", func(m *translog.Tree) *translog.Tree { m.Root[5] ^= 1; return m }, true},
		{"it is gone", func(*translog.Tree) *translog.Tree { return nil }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, o := sound, o
			o.Mark = tt.change(&m)
			r := run(t, rows, o)
			if r.OK() == tt.found || tt.found && r.Findings[0].Kind != Mark {
				t.Errorf("findings %v", r.Findings)
			}
		})
	}
}

func TestFindingsAreBounded(t *testing.T) {
	rows, o := sample(t, steps()...)
	o.Limit, o.Signatures = 10, false
	for i, row := range rows {
		if translog.ParseRowKey(row.Key).Kind == translog.RowEntry {
			rows[i].Value = flipped(row.Value, 100)
		}
	}
	if r := run(t, rows, o); len(r.Findings) != 10 || r.Found() < 600 || r.OK() {
		t.Errorf("%d findings are listed of %d", len(r.Findings), r.Found())
	}
}

// TestSignaturesAreChecked exchanges the key, and nothing else.
func TestSignaturesAreChecked(t *testing.T) {
	rows, o := sample(t, steps()...)
	o.Keys = noKeys{}
	if r := run(t, rows, o); r.Found() < 600+12 {
		t.Errorf("%d findings by a stranger's keys", r.Found())
	}
	o.Signatures = false
	if r := run(t, rows, o); r.Found() < 12 || r.Found() > 30 {
		t.Errorf("%d findings in checkpoints alone", r.Found())
	}
}

type noKeys struct{}

func (noKeys) LookupKey(envelope.Hash) (k envelope.KeyRecord, ok bool) { return k, false }

// TestLogsThatEndedAreCheckedToo rotates, and damages the log before.
func TestLogsThatEndedAreCheckedToo(t *testing.T) {
	r := newRig(t)
	r.grow(30)
	r.publish()
	check(t, r.log.Close())
	c := r.config()
	next := translog.Successor{Origin: testOrigin + "/2", NoteKey: testKey(3)}
	_, err := translog.Rotate(c, next)
	check(t, err)
	c.Origin, c.NoteKey = next.Origin, next.NoteKey
	r.log, err = translog.Open(c)
	check(t, err)
	defer r.close()
	r.grow(5)
	r.publish()
	o := r.options()
	o.VKey, o.Mark, o.MarkRequired = r.log.VerifierKey(), nil, false
	rows := tableOf(t, r.store)
	if got := run(t, rows, o); !got.OK() || got.Entries != 35 || got.TreeSize != 5 || got.Origin != next.Origin {
		t.Errorf("%+v", got)
	}
	for i, row := range rows {
		if k := translog.ParseRowKey(row.Key); k.Kind == translog.RowEntry && k.Number%10 != 3 {
			continue
		}
		changed := slices.Clone(rows)
		changed[i].Value = flipped(row.Value, len(row.Value)/2)
		k := translog.ParseRowKey(row.Key)
		if k.Kind == translog.RowSet {
			continue
		}
		got := run(t, changed, o)
		if got.OK() || k.Log == 0 && k.Kind != translog.RowIdentity && !slices.ContainsFunc(got.Findings, func(f Finding) bool { return f.Log == testOrigin }) {
			t.Errorf("%s of log %d was changed: %v", k, k.Log, got.Findings)
		}
	}
	if got := run(t, rows.with(translog.RowKey{Kind: translog.RowIdentity, Log: 1}.Bytes(), nil), o); got.OK() {
		t.Error("the second log is no longer named, and nothing is found")
	}
}
