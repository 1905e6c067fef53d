package grants

import (
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A ScopeType is a way to say which pages are meant (UZPIF-OI 10.2).
type ScopeType string

// The scope types. Each has prefixes; all but the first name some of the pages
// under them.
const (
	URLPrefix  ScopeType = "url-prefix" // every page under one of the prefixes
	Collection ScopeType = "collection" // of those, the pages of the collection ID
	InFeed     ScopeType = "feed"       // of those, the ones that the newest Feed of the series lists
	HashSet    ScopeType = "hash-set"   // of those, the ones whose payload has one of the digests
)

// Bounds of one scope.
const (
	MaxPrefixes = 256
	MaxDigests  = 3000 // in the scope itself; a larger set is named by its root
)

// A Scope is a set of pages. The zero Scope, like one with an empty list, is
// the empty set: it matches nothing.
//
// A prefix is a canonical URL without a query. It is matched by whole
// segments: "https://example.com/doc/" holds that URL and all below it, but
// not "/doc" or "/docs"; "https://example.com/doc" also holds "/doc" itself.
//
// A hash set holds content, not places: a digest is the SHA-256 of a payload,
// and a page whose content changes leaves the scope unless the new digest is
// in it. It has Digests, or, if they are many, Count and Root (see Listed).
type Scope struct {
	Count    uint64          `json:"count,omitzero" yaml:"count,omitempty"`      // HashSet by its root
	Digests  []envelope.Hash `json:"digests,omitempty" yaml:"digests,omitempty"` // HashSet in full: 1 to MaxDigests, ascending
	ID       string          `json:"id,omitempty" yaml:"id,omitempty"`           // Collection only: the collection's name
	Prefixes []string        `json:"prefixes" yaml:"prefixes"`                   // 1 to MaxPrefixes, ascending
	Query    bool            `json:"query,omitzero" yaml:"query,omitempty"`
	Root     envelope.Hash   `json:"root,omitzero" yaml:"root,omitempty"` // HashSet by its root
	Type     ScopeType       `json:"type" yaml:"type"`
}

// PrefixScope makes a scope of type URLPrefix out of prefixes in any order.
// The error is that of Validate.
func PrefixScope(prefixes ...string) (Scope, error) {
	s := Scope{Prefixes: slices.Compact(slices.Sorted(slices.Values(prefixes))), Type: URLPrefix}
	return s, s.Validate()
}

// CollectionScope makes a scope of type Collection: the pages of the
// collection id that lie under a prefix. The error is that of Validate.
func CollectionScope(id string, prefixes ...string) (Scope, error) {
	s := Scope{ID: id, Prefixes: slices.Compact(slices.Sorted(slices.Values(prefixes))), Type: Collection}
	return s, s.Validate()
}

// Validate refuses a type that does not exist (ErrScopeType), and (ErrScope)
// an empty scope, members of another type's, a prefix that is not canonical,
// has a query or a "*", and what stands out of order.
func (s Scope) Validate() error {
	if !s.Type.known() {
		return refuse(ErrScopeType, "%.40q", string(s.Type))
	}
	if s.Type == Collection {
		if err := checkName(s.ID, maxCollection); err != nil {
			return refuse(ErrScope, "collection: %v", err)
		}
	} else if s.ID != "" {
		return refuse(ErrScope, "a %s scope has no id", s.Type)
	}
	if err := s.validateDigests(); err != nil {
		return err
	}
	if n := len(s.Prefixes); n == 0 || n > MaxPrefixes {
		return refuse(ErrScope, "%d prefixes, want 1 to %d", n, MaxPrefixes)
	}
	for i, p := range s.Prefixes {
		if strings.Contains(p, "*") {
			return refuse(ErrScope, "prefix %.200q: a prefix holds no wildcard; end it in / for all below it", p)
		}
		if _, end, ok := shape(p); !ok || end != len(p) {
			return refuse(ErrScope, "prefix %.200q is not an absolute http or https URL in canonical form, with a path and without a query", p)
		}
		if i > 0 && s.Prefixes[i-1] >= p {
			return refuse(ErrScope, "prefix %.200q stands out of order", p)
		}
	}
	return nil
}

func (t ScopeType) known() bool {
	return t == URLPrefix || t == Collection || t == InFeed || t == HashSet
}

// miss is why a URL is not matched. These are constants, so that refusing a
// million pages allocates nothing.
type miss string

const (
	missForm  miss = "the URL is not in canonical form"
	missQuery miss = "the scope admits no query"
	missPath  miss = "the URL is under none of its prefixes"

	missDigest miss = "the page's content is none of its digests"
)

func (m miss) Error() string { return ErrScope.Error() + ": " + string(m) }
func (m miss) Unwrap() error { return ErrScope }

// Match returns nil for a URL in the scope, and else an error that is
// ErrScope. It needs no help from its caller: a URL that could be read in two
// ways is refused whatever it begins with, host and port are equal octet for
// octet, and a query is refused unless the scope admits it. A scope that was
// never validated matches no more than a valid one would. Match looks at the
// prefixes: Holds looks at a page's content too, Feed.Holds and Listed.Holds at
// its path, and membership of a collection is for the caller, who knows it.
func (s Scope) Match(url string) error {
	path, end, ok := shape(url)
	switch {
	case !ok:
		return missForm
	case end != len(url) && !s.Query:
		return missQuery
	case !s.holds(url, path, end):
		return missPath
	}
	return nil
}

// holds reports whether a prefix leads to u, whose path is u[path:end].
func (s Scope) holds(u string, path, end int) bool {
	for _, p := range s.Prefixes {
		n := len(p)
		// A prefix that is longer than the origin has u's whole origin in it.
		if n > path && n <= end && u[:n] == p && (p[n-1] == '/' || n == end || u[n] == '/') {
			return true
		}
	}
	return false
}

// reaches is Match for what withdraws consent: in doubt, the URL is reached.
func (s Scope) reaches(url string) bool {
	path, end, ok := shape(url)
	return !ok || s.holds(url, path, end)
}

// holdsAll reports whether every prefix of inner lies under one of s.
func (s Scope) holdsAll(inner Scope) bool {
	for _, p := range inner.Prefixes {
		path, end, ok := shape(p)
		if !ok || !s.holds(p, path, end) {
			return false
		}
	}
	return true
}

// Covers reports whether everything in inner is in s, where both are of one
// series, and so of one feed. An empty scope is covered by any.
func (s Scope) Covers(inner Scope) bool {
	if inner.Query && !s.Query || !s.holdsAll(inner) {
		return false
	}
	switch s.Type {
	case URLPrefix:
		return true
	case Collection:
		return inner.Type == Collection && s.ID == inner.ID
	case InFeed:
		return inner.Type == InFeed
	case HashSet:
		return inner.Type == HashSet && s.coversDigests(inner)
	}
	return false
}

// Overlaps reports whether some URL could be in both scopes. Two collections
// overlap if their prefixes do: a URL alone does not tell whose it is. So do
// feeds and hash sets.
func Overlaps(a, b Scope) bool {
	meets := func(outer, inner Scope) bool {
		return slices.ContainsFunc(inner.Prefixes, func(p string) bool {
			path, end, ok := shape(p)
			return ok && outer.holds(p, path, end)
		})
	}
	return meets(a, b) || meets(b, a)
}

// Collide reports whether two series of these scopes would hold one page, as
// far as the scopes show it. Where one of them is a feed or a hash set they do
// not: then it is told of each page, by ErrOverlap, when it is offered.
func Collide(a, b Scope) bool {
	return !a.IsListed() && !b.IsListed() && Overlaps(a, b)
}

// Origins are the distinct origins that the scope reaches into, ascending, as
// "https://example.com" or "http://127.0.0.1:8080".
func (s Scope) Origins() []string {
	var origins []string
	for _, p := range s.Prefixes {
		if path, _, ok := shape(p); ok {
			origins = append(origins, p[:path])
		}
	}
	slices.Sort(origins)
	return slices.Compact(origins)
}

// CheckOrigins refuses, by ErrOrigin, a scope that reaches into an origin
// which is not in held: scheme, host and port are equal, and a host holds none
// of its subdomains.
func (s Scope) CheckOrigins(held []string) error {
	for _, o := range s.Origins() {
		if !slices.Contains(held, o) {
			return refuse(ErrOrigin, "%.200q", o)
		}
	}
	return nil
}

// ScopeHash is SHA-256("uzpif-oi/scope/v1" 00 JCS({nonce, scope})). The nonce
// is the grant's, so that the public log does not let scopes be guessed.
func ScopeHash(nonce Nonce, s Scope) (envelope.Hash, error) {
	b, err := envelope.Canonical(struct {
		Nonce Nonce `json:"nonce"`
		Scope Scope `json:"scope"`
	}{nonce, s})
	if err != nil {
		return envelope.Hash{}, refuse(ErrScope, "%v", err)
	}
	return envelope.TaggedHash("uzpif-oi/scope/v1", b), nil
}
