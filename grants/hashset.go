package grants

import (
	"bytes"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// HashScope makes a scope of type HashSet out of digests in any order: up to
// MaxDigests of them stand in the scope, more are named by count and root. The
// error is that of Validate.
func HashScope(digests []envelope.Hash, prefixes ...string) (Scope, error) {
	s, err := PrefixScope(prefixes...)
	if err != nil {
		return s, err
	}
	s.Type = HashSet
	s.Digests = slices.Clone(digests)
	slices.SortFunc(s.Digests, compareHashes)
	s.Digests = slices.Compact(s.Digests)
	if len(s.Digests) > MaxDigests {
		l := ListDigests(s.Digests).Listed()
		s.Digests, s.Count, s.Root = nil, l.Count, l.Root
	}
	return s, s.Validate()
}

func compareHashes(a, b envelope.Hash) int { return bytes.Compare(a[:], b[:]) }

// IsListed reports whether the prefixes alone do not tell what is in the
// scope, because it names pages by a feed or by their content.
func (s Scope) IsListed() bool { return s.Type == InFeed || s.Type == HashSet }

// Frame is the url-prefix scope with the prefixes of s, in which s lies.
func (s Scope) Frame() Scope {
	return Scope{Prefixes: s.Prefixes, Query: s.Query, Type: URLPrefix}
}

// Brief is s with a hash set named by its root, however small it is: a request
// names what its grant lists.
func (s Scope) Brief() Scope {
	if s.Type == HashSet && len(s.Digests) > 0 {
		l := ListDigests(s.Digests).Listed()
		s.Digests, s.Count, s.Root = nil, l.Count, l.Root
	}
	return s
}

// Set names the members of a hash set; of any other scope it is zero.
func (s Scope) Set() Listed {
	s = s.Brief()
	return Listed{s.Count, s.Root}
}

// Holds is Match for a page with its content: it also refuses a digest that is
// not among those of a hash set. A feed, and a set that is named by its root,
// need a path to say more: see Feed.Holds and Listed.Holds.
func (s Scope) Holds(url string, digest envelope.Hash) error {
	if err := s.Match(url); err != nil {
		return err
	}
	if s.Type != HashSet || !s.Root.IsZero() {
		return nil
	}
	if _, ok := slices.BinarySearchFunc(s.Digests, digest, compareHashes); !ok {
		return missDigest
	}
	return nil
}

func (s Scope) validateDigests() error {
	switch n := len(s.Digests); {
	case s.Type != HashSet && (s.Digests != nil || s.Count != 0 || !s.Root.IsZero()):
		return refuse(ErrScope, "a %s scope has neither digests nor count and root", s.Type)
	case s.Type != HashSet:
		return nil
	case s.Digests != nil && (s.Count != 0 || !s.Root.IsZero()):
		return refuse(ErrScope, "a hash set has its digests, or count and root, not both")
	case s.Digests == nil && (s.Count == 0 || s.Count > envelope.MaxInteger || s.Root.IsZero()):
		return refuse(ErrScope, "a hash set without digests has a count, from 1 to 2^53-1, and a root")
	case s.Digests != nil && (n == 0 || n > MaxDigests):
		return refuse(ErrScope, "%d digests, want 1 to %d, or count and root", n, MaxDigests)
	}
	for i, d := range s.Digests {
		if i > 0 && compareHashes(s.Digests[i-1], d) >= 0 {
			return refuse(ErrScope, "digest %s stands out of order", d)
		}
	}
	return nil
}

// coversDigests reports whether a hash set holds all of another, as far as the
// two show it: by both lists, or by one root.
func (s Scope) coversDigests(inner Scope) bool {
	if len(s.Digests) == 0 || len(inner.Digests) == 0 {
		return s.Set() == inner.Set()
	}
	return !slices.ContainsFunc(inner.Digests, func(d envelope.Hash) bool {
		_, ok := slices.BinarySearchFunc(s.Digests, d, compareHashes)
		return !ok
	})
}
