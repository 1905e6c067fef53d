package publisher

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Relationship is one agreement as the publisher keeps it: one indexer, one
// collection, the grant, policy and feed in force, and the two secrets that blind
// what the public log says of them. It is a file grants/SERIES.json, readable
// by its owner only.
type Relationship struct {
	Series     string
	Indexer    envelope.Name
	Collection string
	LeafKey    translog.LeafKey
	Relation   [32]byte // blinds the subject of log objects
	Pair       grants.Pair
	Feed       *grants.Feed // the newest of the series; nil if there never was one
	Statements []*Statement // that the grant was drawn from
	Renewal    *Renewal     // nil if nothing renews the grant by itself

	revocations []*Revocation // those that reach a grant of the series
}

// relationshipFile is the file's form.
type relationshipFile struct {
	Collection string         `json:"collection"`
	Feed       jsontext.Value `json:"feed,omitzero"`
	Grant      jsontext.Value `json:"grant"`
	Indexer    envelope.Name  `json:"indexer"`
	LeafKey    hexBytes       `json:"leaf_key"`
	Policy     jsontext.Value `json:"policy"`
	Relation   hexBytes       `json:"relation"`
	Renewal    *Renewal       `json:"renewal,omitzero"`
	Series     string         `json:"series"`
	Statements []*Statement   `json:"statements,omitempty"`
}

// hexBytes is 32 octets in hex.
type hexBytes [32]byte

func (b hexBytes) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(b[:])), nil }

func (b *hexBytes) UnmarshalText(text []byte) error {
	if len(text) != 2*len(b) {
		return errors.New("not 32 octets of hex")
	}
	_, err := hex.Decode(b[:], text)
	return err
}

// Subject is how log objects name the relationship.
func (r *Relationship) Subject(publisher envelope.Name) envelope.Name {
	if r.Pair.Grant.Body.Listing == grants.ListingPublic {
		return publisher
	}
	return translog.RelationshipName(r.Relation, publisher)
}

// CollectionRef is how log objects name the collection.
func (r *Relationship) CollectionRef() envelope.Hash { return r.LeafKey.CollectionRef(r.Collection) }

// Revoked reports whether a revocation that was signed here leaves nothing of
// the grant in force, whether or not the indexer knows of it yet.
func (r *Relationship) Revoked() bool {
	for _, v := range r.revocations {
		if v.Signed.ReachesWhole(r.Pair.Grant) {
			return true
		}
	}
	return false
}

// Match returns nil for a page that may be offered: one that is in the grant's
// scope and that no revocation reaches.
func (r *Relationship) Match(url string) error {
	if err := r.Pair.Grant.Body.Scope.Match(url); err != nil {
		return err
	}
	for _, v := range r.revocations {
		if v.Signed.ReachesPage(r.Pair.Grant, url) {
			return grants.ErrRevoked
		}
	}
	return nil
}

// Revocations are those that reached a grant of the series, oldest first.
func (r *Relationship) Revocations() []*Revocation { return r.revocations }

// take notes which of all revocations concern the series.
func (r *Relationship) take(all []*Revocation) {
	for _, v := range all {
		if v.Indexer == r.Indexer && (v.Signed.Body.Series == r.Series || v.Signed.Reaches(r.Pair.Grant)) {
			r.revocations = append(r.revocations, v)
		}
	}
}

// newRelationship draws a series name and its secrets.
func newRelationship(indexer envelope.Name, collection string) (*Relationship, error) {
	var random [8 + 32 + 32]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	r := &Relationship{
		Series:     collection + "-" + hex.EncodeToString(random[:8]),
		Indexer:    indexer,
		Collection: collection,
	}
	copy(r.LeafKey[:], random[8:40])
	copy(r.Relation[:], random[40:])
	return r, nil
}

func (r *Relationship) write(dir string) error {
	f := relationshipFile{
		Collection: r.Collection, Grant: r.Pair.Grant.Object.Raw, Indexer: r.Indexer, LeafKey: hexBytes(r.LeafKey),
		Policy: r.Pair.Policy.Object.Raw, Relation: hexBytes(r.Relation), Renewal: r.Renewal, Series: r.Series, Statements: r.Statements,
	}
	objects := []*envelope.Object{r.Pair.Grant.Object, r.Pair.Policy.Object}
	if r.Feed != nil {
		f.Feed, objects = r.Feed.Object.Raw, append(objects, r.Feed.Object)
	}
	b, err := json.Marshal(f, jsontext.WithIndent("  "))
	if err != nil {
		return err
	}
	// The objects are kept by id as well: receipts name them for as long as
	// they are kept, and a renewal takes their place in the series' file.
	for _, o := range objects {
		if err := durable.WriteFile(objectPath(dir, o.ID), o.Raw, 0o644); err != nil {
			return err
		}
	}
	return durable.WriteFile(filepath.Join(dir, "grants", r.Series+".json"), append(b, '\n'), 0o600)
}

func objectPath(dir string, id envelope.Hash) string {
	return filepath.Join(dir, "grants", "objects", hex.EncodeToString(id[:])+".json")
}

// readObject reads a grant or policy by its id.
func readObject(dir string, id envelope.Hash) ([]byte, error) {
	return os.ReadFile(objectPath(dir, id))
}

// ErrNoGrant is returned for a series or grant that does not exist.
var ErrNoGrant = errors.New("no such grant")

// readRelationship reads one series with its revocations.
func readRelationship(dir, series string) (*Relationship, error) {
	r, err := readSeries(dir, series)
	if err != nil {
		return nil, err
	}
	all, err := Revocations(dir)
	if err != nil {
		return nil, err
	}
	r.take(all)
	return r, nil
}

// readSeries reads the file of one series.
func readSeries(dir, series string) (*Relationship, error) {
	b, err := os.ReadFile(filepath.Join(dir, "grants", series+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %.80q", ErrNoGrant, series)
	}
	if err != nil {
		return nil, err
	}
	var f relationshipFile
	if err := json.Unmarshal(b, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("grant %s: %w", series, err)
	}
	// Indented within the file; signed in canonical form.
	for _, v := range []*jsontext.Value{&f.Grant, &f.Policy} {
		if err := v.Canonicalize(); err != nil {
			return nil, fmt.Errorf("grant %s: %w", series, err)
		}
	}
	pair, err := grants.ReadPair(f.Grant, f.Policy)
	if err != nil {
		return nil, fmt.Errorf("grant %s: %w", series, err)
	}
	if f.Series != series || pair.Grant.Body.Series != series {
		return nil, fmt.Errorf("grant %s: the file speaks of series %q", series, f.Series)
	}
	var feed *grants.Feed
	if f.Feed != nil {
		if err := f.Feed.Canonicalize(); err != nil {
			return nil, fmt.Errorf("grant %s: %w", series, err)
		}
		if feed, err = grants.ReadFeed(f.Feed); err != nil {
			return nil, fmt.Errorf("grant %s: feed: %w", series, err)
		}
	}
	if pair.Grant.Body.Scope.Type == grants.InFeed && feed == nil {
		return nil, fmt.Errorf("grant %s: it is for a feed, and the file holds none", series)
	}
	return &Relationship{
		Series: f.Series, Indexer: f.Indexer, Collection: f.Collection,
		LeafKey: translog.LeafKey(f.LeafKey), Relation: f.Relation, Pair: pair, Feed: feed, Statements: f.Statements, Renewal: f.Renewal,
	}, nil
}

// Relationships lists all series by name.
func Relationships(dir string) ([]*Relationship, error) {
	files, err := filepath.Glob(filepath.Join(dir, "grants", "*.json"))
	if err != nil {
		return nil, err
	}
	sort.Strings(files)
	revocations, err := Revocations(dir)
	if err != nil {
		return nil, err
	}
	var all []*Relationship
	for _, f := range files {
		r, err := readSeries(dir, strings.TrimSuffix(filepath.Base(f), ".json"))
		if err != nil {
			return nil, err
		}
		r.take(revocations)
		all = append(all, r)
	}
	return all, nil
}
