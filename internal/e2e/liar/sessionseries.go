package main

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// announcementBody is short for the tables.
type announcementBody = grants.AnnouncementBody

// A series is an agreement, with what the indexer said that it holds of it.
type series struct {
	rel             *publisher.Relationship
	prefix          string
	epoch, revision uint64
	pages           map[[32]byte]state.Item
	list            *grants.List // of its feed, where the liar made it
}

// journalEpoch is that of a series of our own.
const journalEpoch = 77

func newSeries(rel *publisher.Relationship) *series {
	return &series{rel: rel, prefix: rel.Pair.Grant.Body.Scope.Prefixes[0], epoch: journalEpoch, pages: make(map[[32]byte]state.Item)}
}

// seriesOf is the first series of a publisher's folder.
func seriesOf(dir string) (*series, error) {
	rels, err := publisher.Relationships(dir)
	if err != nil {
		return nil, err
	}
	if len(rels) == 0 {
		return nil, fmt.Errorf("%s: no grant", dir)
	}
	return newSeries(rels[0]), nil
}

// fresh is a new series of our own beside the folder's, with a grant that
// change may spoil.
func (l *liar) fresh(change func(*grants.Draft)) (*series, error) {
	rel := &publisher.Relationship{Indexer: l.indexer, Collection: "lies"}
	var g, p grants.Nonce
	var name [8]byte
	for _, b := range [][]byte{rel.LeafKey[:], rel.Relation[:], g[:], p[:], name[:]} {
		if _, err := rand.Read(b); err != nil {
			return nil, err
		}
	}
	rel.Series = "lies-" + hex.EncodeToString(name[:])
	scope, err := grants.PrefixScope(l.honest.rel.Pair.Grant.Body.Scope.Origins()[0] + "/" + rel.Series + "/")
	if err != nil {
		return nil, err
	}
	d := grants.Draft{
		Stamp: l.stamp(1), Publisher: l.local.Name(), Series: rel.Series, Scope: scope, Purposes: grants.Purposes{grants.SearchIndex},
		LeafKeyCommit: rel.LeafKey.Commit(), Lifetime: time.Hour, GrantNonce: g, PolicyNonce: p,
	}
	if change != nil {
		change(&d)
	}
	rel.Series = d.Series
	if rel.Pair, _, err = grants.Issue(d, l.local.Envelope); err != nil {
		return nil, err
	}
	return newSeries(rel), nil
}

// spoilt makes a series maker out of a change of the draft.
func spoilt(change func(*liar, *grants.Draft)) func(*liar) (*series, error) {
	return func(l *liar) (*series, error) {
		return l.fresh(func(d *grants.Draft) { change(l, d) })
	}
}

// forged makes a series maker out of a change of the signed grant, which is
// then signed again without any check.
func forged(change func(*liar, *envelope.Header, *grants.GrantBody)) func(*liar) (*series, error) {
	return func(l *liar) (*series, error) {
		s, err := l.fresh(nil)
		if err != nil {
			return nil, err
		}
		g := s.rel.Pair.Grant
		h, b := headerOf(g.Object), g.Body
		change(l, &h, &b)
		o, err := envelope.Sign(h, &b, l.local.Envelope)
		if err != nil {
			return nil, err
		}
		s.rel.Pair.Grant = &grants.Grant{Object: o, Body: b}
		return s, nil
	}
}

func headerOf(o *envelope.Object) envelope.Header {
	return envelope.Header{
		Type: o.Type, Authority: o.Authority, Subject: o.Subject, Audience: o.Audience, Epoch: o.Epoch, Sequence: o.Sequence,
		IssuedAt: o.IssuedAt, NotBefore: o.NotBefore, ExpiresAt: o.ExpiresAt,
	}
}

func (l *liar) stamp(sequence uint64) grants.Stamp {
	return grants.Stamp{Indexer: l.indexer, Epoch: l.local.Epoch(envelope.UseEnvelope), Sequence: sequence, At: time.Now().Truncate(time.Second)}
}

// announcement signs one for this stream, after change.
func (c *line) announcement(change func(*liar, *announcementBody), all ...*series) (*oiv1.Announce, error) {
	exporter, err := c.exporter()
	if err != nil {
		return nil, err
	}
	body := announcementBody{Exporter: exporter, Nonce: grants.Binding(c.welcome.Nonce), Publisher: c.l.local.Name()}
	f := new(oiv1.Announce)
	for _, s := range all {
		g, p := s.rel.Pair.Grant, s.rel.Pair.Policy
		body.Grants = append(body.Grants, g.Object.ID)
		body.Policies = append(body.Policies, p.Object.ID)
		body.Requests = append(body.Requests, grants.Request{
			Actions: []grants.Action{grants.Discover, grants.Refresh}, Purposes: g.Body.Purposes, Scope: g.Body.Scope, Series: s.rel.Series,
		})
		f.Grants, f.Policies = append(f.Grants, g.Object.Raw), append(f.Policies, p.Object.Raw)
		if g.Body.Scope.Type == grants.InFeed {
			f.Feeds = append(f.Feeds, s.rel.Feed.Object.Raw)
		}
		f.Secrets = append(f.Secrets, &oiv1.SeriesSecret{
			Series: s.rel.Series, LeafKey: s.rel.LeafKey[:], Relationship: s.rel.Relation[:], Collection: s.rel.Collection,
		})
	}
	if change != nil {
		change(c.l, &body)
	}
	byHash := func(a, b envelope.Hash) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(body.Grants, byHash)
	slices.SortFunc(body.Policies, byHash)
	slices.SortFunc(body.Requests, func(a, b grants.Request) int { return cmp.Compare(a.Series, b.Series) })
	a, err := grants.SignAnnouncement(body, c.l.stamp(1), c.l.local.Envelope)
	if err != nil {
		return nil, err
	}
	f.Announcement = a.Object.Raw
	return f, nil
}

// announce sends an announcement, and learns what is held of each series.
func (c *line) announce(f *oiv1.Announce, all ...*series) error {
	answer, err := c.ask(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: f}})
	if err != nil {
		return err
	}
	result := answer.GetAnnounceResult()
	if result == nil {
		return fmt.Errorf("no answer to the announcement but %v", answer)
	}
	if len(result.Refusals) > 0 {
		return told("refused", result.Refusals[0].Reason, result.Refusals[0].Detail)
	}
	for _, s := range all {
		i := slices.IndexFunc(result.Collections, func(h *oiv1.CollectionState) bool { return h.Series == s.rel.Series })
		if i < 0 {
			return fmt.Errorf("series %s is admitted and has no state", s.rel.Series)
		}
		if held := result.Collections[i]; held.JournalEpoch != 0 {
			s.epoch, s.revision = held.JournalEpoch, held.Revision
		}
		if err := c.rows(s); err != nil {
			return err
		}
	}
	return nil
}

// rows reads the indexer's state of a series: a lie about the next state needs
// the truth about this one.
func (c *line) rows(s *series) error {
	var after []byte
	for {
		f, err := c.ask(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_RangeRequest{RangeRequest: &oiv1.RangeRequest{Series: s.rel.Series, After: after}}})
		if err != nil {
			return err
		}
		answer := f.GetRangeAnswer()
		for _, r := range answer.GetRows() {
			it := state.Item{URLHash: [32]byte(r.Hash), Digest: [32]byte(r.Digest), Format: uint8(r.Format)}
			s.pages[it.URLHash], after = it, r.Hash
		}
		if !answer.GetMore() {
			return nil
		}
	}
}

// rootOf is the root of a state tree.
func rootOf(pages map[[32]byte]state.Item) (envelope.Hash, error) {
	all := make([]state.Item, 0, len(pages))
	for _, it := range pages {
		all = append(all, it)
	}
	slices.SortFunc(all, func(a, b state.Item) int { return bytes.Compare(a.URLHash[:], b.URLHash[:]) })
	root, _, err := state.Of(func(yield func(state.Item, error) bool) {
		for _, it := range all {
			if !yield(it, nil) {
				return
			}
		}
	})
	return root, err
}

func urlHash(url string) [32]byte { return sha256.Sum256([]byte(url)) }
