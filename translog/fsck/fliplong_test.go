//go:build long

package fsck

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

// TestEveryFlippedOctetOfALargerLogIsFound changes each octet of each row of a
// log of 600 entries, for some minutes.
func TestEveryFlippedOctetOfALargerLogIsFound(t *testing.T) {
	rows, o := sample(t, steps()...)
	o.Limit = 1 << 20
	octets := 0
	for _, kind := range []translog.RowKind{
		translog.RowTile, translog.RowSet, translog.RowIdentity, translog.RowHeadNote, translog.RowLatestNote,
		translog.RowPublished, translog.RowHead, translog.RowLatest,
	} {
		o.Signatures = false
		octets += flips(t, rows, o, 1, kind)
	}
	o.Signatures = true // for what is in no full tile
	octets += flips(t, rows, o, 1, translog.RowEntry)
	if want := rows.octets(); octets != want {
		t.Errorf("%d octets were changed, there are %d", octets, want)
	}
}

// TestEveryOctetOfEveryAnswerIsChecked changes each octet of each answer of a
// small log, for a minute.
func TestEveryOctetOfEveryAnswerIsChecked(t *testing.T) { changeAnswers(t, []int{3, 2}, 1<<20) }
