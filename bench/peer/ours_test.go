package peer

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/translog"
)

// measured is a decision whose entry is measured.
type measured struct {
	decision
	octets int
}

func (m *measured) Finish(_ *translog.Tx, c *translog.Committed) error {
	m.octets = len(c.Entries[0].Raw)
	return nil
}

// TestSignedSizeIsThatOfAnEntry: what our log is measured by signs as many octets.
func TestSignedSizeIsThatOfAnEntry(t *testing.T) {
	o, err := OpenOurs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	m := &measured{decision: decision{1}}
	if err := o.Commit(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	// Without the list of one signature and its name; with a tag, the algorithm, the
	// key's name and three lengths.
	const list = len(`,"signatures":[{"alg":"Ed25519","key_id":"sha256:","sig":""}]`) + 64 + 86
	const beside = len("uzpif-oi/signature/v1") + 1 + 2 + len("Ed25519") + 2 + len("sha256:") + 64 + 8
	if n := m.octets - list + beside; n < SignedSize-20 || n > SignedSize+20 {
		t.Errorf("%d octets are signed, and SignedSize says %d", n, SignedSize)
	}
}
