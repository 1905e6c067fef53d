package evaluate

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// EvidenceVersion is the edition of the evidence file that is read and written.
const EvidenceVersion = "uzpif-oi-evidence/1"

// evidenceLimits are wider than an artefact's, since a file holds up to eight
// of them and the cards, two levels down. A note with many cosignatures is the
// longest string.
var evidenceLimits = envelope.Limits{
	Size:    MaxEvidence,
	Depth:   envelope.MaxDepth + 2,
	Items:   envelope.MaxItems,
	Members: envelope.MaxMembers,
	String:  32 << 10,
}

// Bounds of an evidence file.
const (
	MaxEvidence = 2 << 20 // octets of the whole file
	MaxCards    = 16      // identity cards in it
	maxPath     = 64      // hashes of one path: no tree of 2^53 leaves needs more
)

// A Claim is what an evidence file says happened to a page.
type Claim string

// The claims, with the decisions that they stand for.
const (
	ClaimAccepted Claim = "accepted" // include
	ClaimUpdated  Claim = "updated"  // update
	ClaimDeleted  Claim = "deleted"  // delete-ack
	ClaimExcluded Claim = "excluded" // exclude
	ClaimRevoked  Claim = "revoked"  // revoke-ack: of a grant, and of no page
)

// ClaimOf is what an entry of decision d says; "" if nothing.
func ClaimOf(d translog.Decision) Claim {
	switch d {
	case translog.Include:
		return ClaimAccepted
	case translog.Update:
		return ClaimUpdated
	case translog.DeleteAck:
		return ClaimDeleted
	case translog.Exclude:
		return ClaimExcluded
	case translog.RevokeAck:
		return ClaimRevoked
	}
	return ""
}

// Evidence is the offline bundle about one page, or about the revocation of a
// grant: what was signed about it, and what leads from there to a checkpoint of the log (UZPIF-OI 9.1.4). Artefacts
// stand in it as their exact octets. Fields stand in canonical order.
//
// It discloses the salts of one leaf, and so one page and no other. A put has
// either SaltContent with Digest, or ContentPart, which keeps the digest
// hidden; a tombstone has neither. That a grant was revoked is said of no page:
// Leaf, Set and URL are absent then.
type Evidence struct {
	Acknowledgement jsontext.Value            `json:"acknowledgement,omitzero"` // with Revocation
	Cards           []jsontext.Value          `json:"cards"`                    // of indexer and publisher, old ones included
	Checkpoint      jsontext.Value            `json:"checkpoint"`               // the signed checkpoint of the receipt
	Claim           Claim                     `json:"claim"`
	Consistency     translog.ConsistencyProof `json:"consistency"`     // from the checkpoint to the note
	Digest          envelope.Hash             `json:"digest,omitzero"` // SHA-256 of the page's payload
	Entry           jsontext.Value            `json:"entry"`
	ID              envelope.Hash             `json:"evidence_id,omitzero"`
	Version         string                    `json:"evidence_version"`
	Grant           jsontext.Value            `json:"grant"`
	Inclusion       translog.InclusionProof   `json:"inclusion"` // of the entry under the checkpoint
	Leaf            Leaf                      `json:"leaf,omitzero"`
	Manifest        jsontext.Value            `json:"manifest,omitzero"` // where the entry has a batch_id
	Note            string                    `json:"note"`              // a checkpoint note of that size or a later one
	Policy          jsontext.Value            `json:"policy"`
	R               Salt                      `json:"r,omitzero"`          // opens a blinded subject
	Receipt         jsontext.Value            `json:"receipt,omitzero"`    // where the entry has a batch_id
	Revocation      jsontext.Value            `json:"revocation,omitzero"` // where the entry has a revocation_id
	Set             SetPlace                  `json:"set,omitzero"`
	URL             string                    `json:"url,omitzero"`
}

// Disclose opens the leaf of one revision of a page, and no other.
func (ev *Evidence) Disclose(k translog.LeafKey, op translog.Op, journalEpoch, revision uint64, url string, digest envelope.Hash) {
	su, sc := k.Salts(journalEpoch, revision, sha256.Sum256([]byte(url)))
	ev.URL, ev.Leaf = url, Leaf{Op: op, Revision: revision, SaltURL: su}
	if op == translog.OpPut {
		ev.Leaf.SaltContent, ev.Digest = sc, digest
	}
}

// Leaf opens the page's leaf in the decision set.
type Leaf struct {
	ContentPart envelope.Hash `json:"content_part,omitzero"`
	Op          translog.Op   `json:"op"`
	Revision    uint64        `json:"revision"`
	SaltContent Salt          `json:"sc,omitzero"`
	SaltURL     Salt          `json:"su"`
}

// SetPlace is the leaf's place in the decision set, and the path to its root.
type SetPlace struct {
	Index uint64          `json:"index"`
	Path  []envelope.Hash `json:"path"`
}

// A Salt is 32 secret octets that evidence discloses, in base64url without
// padding. The zero Salt is absent.
type Salt [32]byte

// MarshalText writes 43 characters.
func (s Salt) MarshalText() ([]byte, error) {
	return base64.RawURLEncoding.AppendEncode(nil, s[:]), nil
}

// UnmarshalText accepts exactly what MarshalText writes.
func (s *Salt) UnmarshalText(text []byte) error {
	b, err := base64.RawURLEncoding.AppendDecode(nil, text)
	if err != nil || len(b) != len(s) {
		return fmt.Errorf("malformed salt %.60q", text)
	}
	// The decoder alone accepts line feeds and stray trailing bits.
	v := Salt(b)
	if again, err := v.MarshalText(); err != nil || !bytes.Equal(again, text) || v == (Salt{}) {
		return fmt.Errorf("malformed salt %.60q", text)
	}
	*s = v
	return nil
}

// Seal names ev by its content and returns the file. It parses the result
// again, so that nothing is written that Parse refuses.
func Seal(ev *Evidence) ([]byte, error) {
	ev.Version, ev.ID = EvidenceVersion, envelope.Hash{}
	id, err := ev.name()
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	ev.ID = id
	raw, err := envelope.Canonical(ev)
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	_, err = Parse(raw)
	return raw, err
}

// name computes the evidence_id.
func (ev *Evidence) name() (envelope.Hash, error) {
	bare := *ev
	bare.ID = envelope.Hash{}
	b, err := envelope.Canonical(&bare)
	if err != nil {
		return envelope.Hash{}, err
	}
	return envelope.TaggedHash("uzpif-oi/evidence/v1", b), nil
}

// Parse reads an evidence file and makes every check that needs no key: size
// (at most MaxEvidence octets), syntax, canonical form, schema, and that
// evidence_id names it. The artefacts in it are not looked at.
func Parse(raw []byte) (*Evidence, error) {
	var ev Evidence
	if err := envelope.DecodeCanonicalWithin(raw, &ev, evidenceLimits); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	if err := ev.validate(); err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	id, err := ev.name()
	if err != nil {
		return nil, fmt.Errorf("evidence: %w", err)
	}
	if id != ev.ID {
		return nil, fmt.Errorf("evidence: evidence_id does not name this file: it was changed after it was made")
	}
	return &ev, nil
}

// validate makes the checks that the schema leaves open.
func (ev *Evidence) validate() error {
	switch {
	case ev.Version != EvidenceVersion:
		return fmt.Errorf("evidence_version %.40q, want %q", ev.Version, EvidenceVersion)
	case len(ev.Cards) > MaxCards:
		return fmt.Errorf("%d cards, at most %d", len(ev.Cards), MaxCards)
	case len(ev.Set.Path) > maxPath, len(ev.Inclusion.Hashes) > maxPath, len(ev.Consistency.Hashes) > 2*maxPath:
		return fmt.Errorf("a path is longer than any tree needs")
	case (len(ev.Revocation) == 0) != (len(ev.Acknowledgement) == 0):
		return fmt.Errorf("revocation and acknowledgement come together")
	case (len(ev.Receipt) == 0) != (len(ev.Manifest) == 0):
		return fmt.Errorf("receipt and manifest come together")
	case ev.Claim == ClaimRevoked:
		if ev.URL != "" || ev.Leaf != (Leaf{}) || ev.Set.Index != 0 || ev.Set.Path != nil || !ev.Digest.IsZero() {
			return fmt.Errorf("a page beside the claim %q, which is about none", ev.Claim)
		}
		return nil
	case !isPlain(ev.URL):
		return fmt.Errorf("url is not one of 1 to %d visible ASCII characters", grants.MaxURL)
	}
	return ev.Leaf.validate(ev.Digest)
}

// isPlain reports whether url can be shown to a person as it stands. Whether it
// is canonical, and in scope, is looked at later.
func isPlain(url string) bool {
	for i := range len(url) {
		if url[i] <= ' ' || url[i] > '~' {
			return false
		}
	}
	return 0 < len(url) && len(url) <= grants.MaxURL
}

func (l *Leaf) validate(digest envelope.Hash) error {
	disclosed, hidden := l.SaltContent != Salt{}, !l.ContentPart.IsZero()
	switch {
	case l.Op == translog.OpPut && disclosed == hidden:
		return fmt.Errorf("a put has one of sc and content_part")
	case l.Op == translog.OpTombstone && (disclosed || hidden):
		return fmt.Errorf("a tombstone has neither sc nor content_part")
	case l.Op != translog.OpPut && l.Op != translog.OpTombstone:
		return fmt.Errorf("leaf operation %d", l.Op)
	case disclosed == digest.IsZero():
		return fmt.Errorf("digest and sc come together")
	case l.SaltURL == Salt{}:
		return fmt.Errorf("no su")
	}
	return nil
}

// open makes the leaf that the decision set holds for url.
func (l *Leaf) open(url string, digest envelope.Hash) translog.Leaf {
	leaf := translog.Leaf{Op: l.Op, Revision: l.Revision, Object: translog.ObjectPart(l.SaltURL, url), Content: l.ContentPart}
	if l.SaltContent != (Salt{}) {
		leaf.Content = translog.ContentPart(l.SaltContent, digest)
	}
	return leaf
}
