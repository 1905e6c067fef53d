package main

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// grantAttacks lie about what is allowed: the announcement meets them.
var grantAttacks = []attack{
	{name: "wrong-audience", lie: "a grant that is addressed to another indexer",
		series: spoilt(func(_ *liar, d *grants.Draft) { d.Indexer = "spiffe://elsewhere.test/indexer" })},
	{name: "another-issuer", lie: "a grant that another publisher signed for the same indexer",
		series: func(l *liar) (*series, error) { return seriesOf(l.other) }},
	{name: "another-name", lie: "a grant in the name of another publisher, signed by ourselves",
		series: spoilt(func(_ *liar, d *grants.Draft) { d.Publisher = "spiffe://victim.test/publisher" })},
	{name: "not-yet-valid", lie: "a grant of tomorrow",
		series: spoilt(func(_ *liar, d *grants.Draft) { d.At = d.At.Add(24 * time.Hour) })},
	{name: "not-before", lie: "a grant that begins in half an hour",
		series: forged(func(_ *liar, h *envelope.Header, _ *grants.GrantBody) { h.NotBefore = h.IssuedAt.Add(time.Hour / 2) })},
	{name: "ended", lie: "a grant that has ended already", series: func(l *liar) (*series, error) {
		s, err := l.fresh(func(d *grants.Draft) { d.Lifetime = time.Second })
		if err == nil {
			time.Sleep(time.Until(s.rel.Pair.ExpiresAt()))
		}
		return s, err
	}},
	{name: "too-long", lie: "a grant for longer than any may last",
		series: forged(func(_ *liar, h *envelope.Header, _ *grants.GrantBody) {
			h.ExpiresAt = h.IssuedAt.Add(grants.MaxLifetime + time.Hour)
		})},
	{name: "bad-signature", lie: "a grant whose signature is spoilt",
		presents: func(_ *liar, f *oiv1.Announce) error { return spoilSignature(f.Grants[0]) }},
	{name: "stranger", lie: "a grant that an unknown key signed", series: strangersGrant},
	{name: "out-of-scope-asked", lie: "asks for more pages than the grant covers",
		asks: func(l *liar, b *announcementBody) {
			b.Requests[0].Scope.Prefixes = []string{l.honest.rel.Pair.Grant.Body.Scope.Origins()[0] + "/"}
		}},
	{name: "purpose", lie: "announces a purpose that the grant lacks",
		asks: func(_ *liar, b *announcementBody) { b.Requests[0].Purposes = grants.Purposes{grants.AITrain} }},
	{name: "policy-mismatch", lie: "a grant that names the policy of another series", series: anothersPolicy},
	{name: "policy-denies", lie: "a grant for what its own policy denies",
		series: forged(func(_ *liar, _ *envelope.Header, b *grants.GrantBody) { b.Purposes = grants.Purposes{grants.AITrain} })},
	{name: "policy-missing", lie: "a grant without its policy", series: spoilt(func(*liar, *grants.Draft) {}),
		presents: func(_ *liar, f *oiv1.Announce) error { f.Policies = nil; return nil }},
	{name: "no-grant", lie: "an announcement of nothing",
		asks:     func(_ *liar, b *announcementBody) { b.Grants, b.Policies = nil, nil },
		presents: func(_ *liar, f *oiv1.Announce) error { f.Grants, f.Policies, f.Secrets = nil, nil, nil; return nil }},
	{name: "not-presented", lie: "an announcement of a grant that does not come", series: spoilt(func(*liar, *grants.Draft) {}),
		presents: func(_ *liar, f *oiv1.Announce) error { f.Grants = nil; return nil }},
	{name: "overlap", lie: "a second series for pages of the first",
		series: spoilt(func(l *liar, d *grants.Draft) { d.Scope = l.honest.rel.Pair.Grant.Body.Scope })},
	{name: "overlap-beside", lie: "two series for the same pages, announced at once", beside: true,
		series: spoilt(func(l *liar, d *grants.Draft) { d.Scope = l.honest.rel.Pair.Grant.Body.Scope })},
	{name: "foreign-origin", lie: "a grant for the pages of somebody else",
		series: spoilt(func(_ *liar, d *grants.Draft) { d.Scope.Prefixes = []string{"https://victim.test/"} })},
	{name: "equivocation", lie: "another grant at the position of the one in force",
		series: secondGrant(func(l *liar) uint64 { return l.honest.rel.Pair.Grant.Object.Sequence })},
	{name: "older-grant", lie: "a grant that comes before the one in force",
		series: secondGrant(func(l *liar) uint64 { return l.honest.rel.Pair.Grant.Object.Sequence - 1 })},
	{name: "leaf-key", lie: "another leaf key than the grant commits to", series: spoilt(func(*liar, *grants.Draft) {}),
		presents: func(_ *liar, f *oiv1.Announce) error { f.Secrets[0].LeafKey = make([]byte, 32); return nil }},
	{name: "collection-name", lie: "a collection whose name clears the reader's terminal", series: func(l *liar) (*series, error) {
		s, err := l.fresh(nil)
		if err == nil {
			s.rel.Collection = "\x1b[2J"
		}
		return s, err
	}},
	{name: "wrong-exporter", lie: "an announcement of another connection",
		asks: func(_ *liar, b *announcementBody) { b.Exporter[0] ^= 1 }},
	{name: "wrong-nonce", lie: "an announcement of another stream",
		asks: func(_ *liar, b *announcementBody) { b.Nonce[0] ^= 1 }},
	{name: "another-announcer", lie: "an announcement in the name of another publisher",
		asks: func(_ *liar, b *announcementBody) { b.Publisher = "spiffe://victim.test/publisher" }},
}

// secondGrant makes another grant of the folder's series, at a position.
func secondGrant(sequence func(*liar) uint64) func(*liar) (*series, error) {
	return func(l *liar) (*series, error) {
		h := l.honest.rel
		s, err := l.fresh(func(d *grants.Draft) {
			d.Series, d.Sequence, d.LeafKeyCommit, d.Scope = h.Series, sequence(l), h.LeafKey.Commit(), h.Pair.Grant.Body.Scope
		})
		if err != nil {
			return nil, err
		}
		s.rel.LeafKey, s.rel.Relation, s.rel.Collection = h.LeafKey, h.Relation, h.Collection
		return s, nil
	}
}

// anothersPolicy is a grant that names, and comes with, the honest policy.
func anothersPolicy(l *liar) (*series, error) {
	honest := l.honest.rel.Pair.Policy
	s, err := forged(func(_ *liar, _ *envelope.Header, b *grants.GrantBody) { b.PolicyHash = honest.Object.ID })(l)
	if err == nil {
		s.rel.Pair.Policy = honest
	}
	return s, err
}

// strangersGrant is a grant of ours that a key signed which no card lists.
func strangersGrant(l *liar) (*series, error) {
	s, err := l.fresh(nil)
	if err != nil {
		return nil, err
	}
	g := s.rel.Pair.Grant
	o, err := envelope.Sign(headerOf(g.Object), &g.Body, l.stranger)
	if err != nil {
		return nil, err
	}
	s.rel.Pair.Grant = &grants.Grant{Object: o, Body: g.Body}
	return s, nil
}
