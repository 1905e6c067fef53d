package translog

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// MaxExportGrants is how many grants, and how many policies, one export may name.
const MaxExportGrants = 1000

// Export is the body of an export-manifest: what an indexer wrote for one purpose,
// and by which permissions (UZPIF-OI 11).
type Export struct {
	Checkpoint CheckpointRef   `json:"checkpoint"`
	Files      uint64          `json:"files"`
	Format     string          `json:"format"`
	Grants     []envelope.Hash `json:"grants"`
	Indexer    envelope.Name   `json:"indexer"`
	LogOrigin  string          `json:"log_origin"`
	Pages      Set             `json:"pages"`
	Policies   []envelope.Hash `json:"policies"`
	Purpose    string          `json:"purpose"`
	Sums       envelope.Hash   `json:"sums"`
	ThirdParty bool            `json:"third_party,omitzero"`
	Until      envelope.Time   `json:"until"`
}

// Validate makes the checks that the schema leaves open.
func (e *Export) Validate() error {
	for name, all := range map[string][]envelope.Hash{"grants": e.Grants, "policies": e.Policies} {
		if len(all) > MaxExportGrants {
			return fmt.Errorf("%d %s, at most %d", len(all), name, MaxExportGrants)
		}
		for i := range len(all) - 1 {
			if bytes.Compare(all[i][:], all[i+1][:]) >= 0 {
				return fmt.Errorf("%s are not ascending", name)
			}
		}
	}
	if e.Format == "" || e.Purpose == "" || e.Sums.IsZero() {
		return errors.New("format, purpose and sums are required")
	}
	return nil
}

// A SetHasher makes a set of records, in the order in which they come, and keeps
// none of them.
type SetHasher struct{ tree *compact.Range }

// NewSetHasher begins an empty set.
func NewSetHasher() *SetHasher {
	return &SetHasher{(&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewEmptyRange(0)}
}

// Add appends a record.
func (h *SetHasher) Add(record []byte) {
	if err := h.tree.Append(rfc6962.DefaultHasher.HashLeaf(record), nil); err != nil {
		panic("translog: a range of its own making is inconsistent: " + err.Error())
	}
}

// Set is the set of what was added: the RFC 6962 tree over the records.
func (h *SetHasher) Set() Set {
	root, err := h.tree.GetRootHash(nil)
	if err != nil {
		panic("translog: a range of its own making is inconsistent: " + err.Error())
	}
	if root == nil {
		root = rfc6962.DefaultHasher.EmptyRoot()
	}
	return Set{Count: h.tree.End(), Root: envelope.Hash(root)}
}
