package lint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// ErrDisclosure: a file discloses nothing that could be judged.
var ErrDisclosure = errors.New("not a disclosure")

// MaxDisclosure is the most octets of a disclosure, of a million pages or so.
const MaxDisclosure = 256 << 20

// disclosureProfile names the form of the file.
const disclosureProfile = "uzpif-oi-disclosed/1"

// A Disclosure is what a publisher shows of one collection, of its own will: the
// leaf key, and of each decision set the pages in their order. Nothing in it
// need be believed: each set is held against the root that the log has.
type Disclosure struct {
	sets       map[uint64][]disclosedPage // by index of the entry
	key        translog.LeafKey
	collection envelope.Hash
	id         envelope.Hash
}

type disclosureFile struct {
	Collection string         `json:"collection"`
	LeafKey    string         `json:"leaf_key"` // 64 hex digits
	Profile    string         `json:"profile"`
	Sets       []disclosedSet `json:"sets"`
}

type disclosedSet struct {
	Index uint64          `json:"index"` // of the entry
	Pages []disclosedPage `json:"pages"`
}

// A disclosedPage is one leaf. A tombstone has no digest. JournalEpoch is that
// of the page's own revision where it is not that of the entry. Of a page that is
// not shown, because its publisher has forgotten how it was, only Leaf is there,
// the hash of its leaf.
type disclosedPage struct {
	Digest       envelope.Hash `json:"digest,omitzero"`
	JournalEpoch uint64        `json:"journal_epoch,omitzero"`
	Leaf         envelope.Hash `json:"leaf,omitzero"`
	Op           translog.Op   `json:"op,omitzero"`
	Revision     uint64        `json:"revision,omitzero"`
	URL          string        `json:"url,omitzero"`
}

// valid reports whether the members go together.
func (p *disclosedPage) valid() bool {
	if !p.Leaf.IsZero() {
		return *p == disclosedPage{Leaf: p.Leaf}
	}
	return (p.Op == translog.OpPut || p.Op == translog.OpTombstone) && p.URL != "" && (p.Op == translog.OpPut) != p.Digest.IsZero()
}

// ParseDisclosure reads a disclosure of at most MaxDisclosure octets.
func ParseDisclosure(raw []byte) (*Disclosure, error) {
	if len(raw) > MaxDisclosure {
		return nil, fmt.Errorf("%w: over %d octets", ErrDisclosure, MaxDisclosure)
	}
	var f disclosureFile
	if err := json.Unmarshal(raw, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDisclosure, err)
	}
	key, err := hex.DecodeString(f.LeafKey)
	if f.Profile != disclosureProfile || err != nil || len(key) != sha256.Size || f.Collection == "" {
		return nil, fmt.Errorf("%w: want profile %s, a leaf_key of 64 hex digits, and a collection", ErrDisclosure, disclosureProfile)
	}
	d := &Disclosure{sets: make(map[uint64][]disclosedPage), key: translog.LeafKey(key), id: sha256.Sum256(raw)}
	d.collection = d.key.CollectionRef(f.Collection)
	for _, s := range f.Sets {
		if _, twice := d.sets[s.Index]; twice {
			return nil, fmt.Errorf("%w: the set of entry %d is there twice", ErrDisclosure, s.Index)
		}
		for _, p := range s.Pages {
			if !p.valid() {
				return nil, fmt.Errorf("%w: a page of entry %d has no URL, another op than 1 or 2, or a digest or leaf that does not go with it", ErrDisclosure, s.Index)
			}
		}
		d.sets[s.Index] = s.Pages
	}
	return d, nil
}

// A pageChecker follows single pages through the entries of one collection.
type pageChecker struct {
	Pages  map[string]*pageSeen `json:"pages"` // by URL
	Gap    bool                 `json:"gap"`   // a set of the collection was not disclosed
	Sets   uint64               `json:"sets"`
	Hidden uint64               `json:"hidden"`
	Leaves uint64               `json:"leaves"` // of which only the hash was disclosed

	d     *Disclosure
	broke func(index uint64, rule Rule, format string, args ...any)
}

// A pageSeen is what is known of one page.
type pageSeen struct {
	Held bool `json:"held"`
	// Was: it was held before, and its end may be acknowledged later.
	Was bool `json:"was"`
	// Epoch and Revision are those of what is held.
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	// Deleted are the grants under which it was deleted after a revocation, the
	// last of them.
	Deleted []envelope.Hash `json:"deleted,omitempty"`
}

// checker begins where before had come to, with the same disclosure. One that was
// not there before would have to see all entries again.
func (d *Disclosure) checker(before *state, broke func(uint64, Rule, string, ...any)) (*pageChecker, error) {
	if d == nil {
		return nil, nil
	}
	c := &pageChecker{Pages: make(map[string]*pageSeen), d: d, broke: broke}
	if before == nil {
		return c, nil
	}
	if before.Disclosure != d.id {
		return nil, fmt.Errorf("%w: it was made with another disclosure; give this one a folder of its own", ErrState)
	}
	if err := json.Unmarshal(before.Pages, c); err != nil || c.Pages == nil {
		return nil, fmt.Errorf("%w: its pages cannot be read: %w; remove it to begin anew", ErrState, err)
	}
	return c, nil
}

// take judges the pages of an entry, if it is of the collection.
func (c *pageChecker) take(index uint64, e *translog.Entry) {
	if e.CollectionRef != c.d.collection {
		return
	}
	pages, ok := c.d.sets[index]
	if !ok {
		if e.Status == translog.OutOfScope {
			c.Gap = true // pages leave that are not named
		}
		if e.Objects.Root != translog.SetOf(nil).Root {
			c.Gap, c.Hidden = true, c.Hidden+1
		}
		return
	}
	c.Sets++
	leaves, maker := make([][32]byte, len(pages)), c.d.key.Maker()
	for i, p := range pages {
		if leaves[i] = p.Leaf; !p.Leaf.IsZero() {
			continue
		}
		leaves[i] = maker.Hash(p.Op, cmp.Or(p.JournalEpoch, e.JournalEpoch), p.Revision, p.URL, p.Digest)
	}
	if got := translog.SetOf(leaves); got != e.Objects {
		c.Gap = true
		c.broke(index, Disclosed, "the %d pages that are disclosed have the root %s, the entry is over %d under %s: either is not true",
			got.Count, got.Root, e.Objects.Count, e.Objects.Root)
		return
	}
	for _, p := range pages {
		if !p.Leaf.IsZero() {
			c.Gap, c.Leaves = true, c.Leaves+1
			continue
		}
		seen := c.Pages[p.URL]
		if seen == nil {
			seen = new(pageSeen)
			c.Pages[p.URL] = seen
		}
		c.page(index, e, p, seen)
	}
}

// page judges what an entry decided about one page.
func (c *pageChecker) page(index uint64, e *translog.Entry, p disclosedPage, seen *pageSeen) {
	epoch, url := cmp.Or(p.JournalEpoch, e.JournalEpoch), p.URL
	switch {
	case accepts(e) && slices.Contains(seen.Deleted, e.GrantID):
		c.broke(index, PageReturned, "%.300q was deleted after a revocation under grant %s, and is taken in again", url, e.GrantID)
	case (e.Decision == translog.Update || e.Status == translog.Removed) && !seen.Held && !c.Gap,
		e.Decision == translog.DeleteAck && !seen.Held && !seen.Was && !c.Gap:
		c.broke(index, PageUnknown, "%s/%s of %.300q, which was not included", e.Decision, e.Status, url)
	}
	switch e.Decision {
	case translog.Include, translog.Update:
		seen.Held, seen.Was, seen.Epoch, seen.Revision = true, true, epoch, p.Revision
	case translog.Exclude: // what was held of it is dropped
		seen.Held = false
	case translog.DeleteAck:
		// The end of a retention may be said after the page came again.
		if e.Status != translog.Retention || seen.Epoch == epoch && seen.Revision == p.Revision {
			seen.Held = false
		}
		if e.Status == translog.Revoked && !slices.Contains(seen.Deleted, e.GrantID) {
			seen.Deleted = lastOf(append(seen.Deleted, e.GrantID), maxRecent)
		}
	}
}

// notJudged says what the disclosure leaves open.
func (c *pageChecker) notJudged() []string {
	if !c.Gap {
		return nil
	}
	return []string{fmt.Sprintf("whether pages of the disclosed collection were held, behind the first of %s and %s that are not disclosed",
		plural.Count(c.Hidden, "set", "sets"), plural.Count(c.Leaves, "page", "pages"))}
}
