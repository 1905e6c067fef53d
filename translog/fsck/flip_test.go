package fsck

import (
	"fmt"
	"slices"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

// names are the keys under which a damaged row may be found. A flipped tile is
// told by the entry that it contradicts, unless it is known which of them holds.
func names(k translog.RowKey, at int) []string {
	switch k.Kind {
	case translog.RowTile:
		index := k.Number*translog.TileWidth + uint64(at/32)
		return []string{fmt.Sprintf("tile 0/%d %d", k.Number, index), fmt.Sprintf("entry %d %d", index, index)}
	case translog.RowHeadNote:
		k.Kind = translog.RowHead
	case translog.RowLatestNote:
		k.Kind = translog.RowLatest
	}
	return []string{k.String()}
}

// found gives what a report names, and with the index for what is told by hash.
func found(r *Report) map[string]bool {
	all := make(map[string]bool)
	for _, f := range r.Findings {
		all[f.Key] = true
		all[fmt.Sprintf("%s %d", f.Key, f.Index)] = true
	}
	return all
}

// flips changes each octet of each row of some kinds. Those of one kind are
// changed at one offset together, and tiles once in each of their hashes, and
// every one of them must be named: a finding cannot stand for another. Without
// signatures, that is not asked of an entry which is in no full tile: what is
// wrong below the edge changes the root, and it is left alone. One in stride
// offsets is taken. It gives the number of octets that were changed.
func flips(t *testing.T, rows table, o Options, stride int, kinds ...translog.RowKind) (octets int) {
	t.Helper()
	var places []int
	step := 1
	for i, row := range rows {
		k := translog.ParseRowKey(row.Key)
		edge := k.Kind == translog.RowEntry && k.Number >= o.Mark.Size/translog.TileWidth*translog.TileWidth
		if !slices.Contains(kinds, k.Kind) || edge && !o.Signatures {
			continue
		}
		places = append(places, i)
		if k.Kind == translog.RowTile {
			step = 32
		}
	}
	for at, more := 0, true; more && (step == 1 || at < step); at += stride {
		changed := slices.Clone(rows)
		var wanted [][]string
		more = false
		for _, i := range places {
			for j := at; j < len(rows[i].Value) && (step > 1 || j == at); j += step {
				changed[i].Value = flipped(changed[i].Value, j)
				wanted = append(wanted, names(translog.ParseRowKey(rows[i].Key), j))
				more = true
			}
		}
		octets += len(wanted)
		got := found(run(t, changed, o))
		for _, any := range wanted {
			if !slices.ContainsFunc(any, func(name string) bool { return got[name] }) {
				t.Errorf("octet %d of %s was changed, and is not found", at, any[0])
			}
		}
	}
	return octets
}

// TestEveryFlippedOctetIsFound changes each octet of two logs: of a small one,
// whose entries are in no full tile and stand by their signatures and the root,
// and of one of 600 entries each octet of the tiles, and one in 41 of the
// entries below them. TestEveryFlippedOctetOfALargerLogIsFound is for long runs.
func TestEveryFlippedOctetIsFound(t *testing.T) {
	small, o := sample(t, 1, 2, 1)
	octets := flips(t, small, o, 1, translog.RowEntry)
	o.Signatures = false
	for _, kinds := range [][]translog.RowKind{
		{translog.RowSet}, {translog.RowIdentity}, {translog.RowHeadNote, translog.RowLatestNote},
		{translog.RowPublished, translog.RowHead, translog.RowLatest},
	} {
		octets += flips(t, small, o, 1, kinds...)
	}
	if want := small.octets(); octets != want {
		t.Errorf("%d octets of the small log were changed, there are %d", octets, want)
	}
	large, o := sample(t, 255, 100, 157, 88)
	o.Signatures = false
	if octets := flips(t, large, o, 1, translog.RowTile); octets != 2*32*translog.TileWidth {
		t.Errorf("%d octets of tiles were changed", octets)
	}
	flips(t, large, o, 41, translog.RowEntry)
}
