package publisher

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// announce presents the grants of the session's series, and takes in what the
// indexer holds of each. A grant, policy or feed that the indexer has is named in
// the announcement and not sent again.
func (s *session) announce(ctx context.Context, exporter [32]byte) error {
	frame, err := s.announcement(exporter)
	if err != nil {
		return err
	}
	if err := s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: frame}}); err != nil {
		return err
	}
	f, err := s.next(ctx)
	if err != nil {
		return err
	}
	result := f.GetAnnounceResult()
	if result == nil {
		return s.violation("no answer to the announcement")
	}
	if len(result.Refusals) > 0 {
		return s.refusedAnnouncement(result.Refusals)
	}
	for _, c := range result.Collections {
		s.held[c.Series] = c
		s.asking.want(c.Series, c.Wanted)
	}
	for _, r := range s.rels {
		if s.held[r.Series] == nil {
			return s.violation("no state of series %s", r.Series)
		}
	}
	return nil
}

// announcementRefused is the refusal of an announcement, with the series that
// are at fault. It is a *Refused to errors.As.
type announcementRefused struct {
	Refused
	series map[string]error
}

func (r *announcementRefused) Unwrap() error { return &r.Refused }

// refusedAnnouncement joins the reasons of a refused announcement.
func (s *session) refusedAnnouncement(all []*oiv1.Refusal) error {
	r := &announcementRefused{series: make(map[string]error, len(all))}
	r.Reason = grants.Reason(clean(all[0].Reason))
	byGrant := make(map[string]string, len(s.rels))
	for _, rel := range s.rels {
		id := rel.Pair.Grant.Object.ID
		byGrant[string(id[:])] = rel.Series
	}
	var details []string
	for i, x := range all {
		series := x.Series
		if series == "" {
			series = byGrant[string(x.GrantId)]
		}
		if series != "" {
			r.series[series] = &Refused{Reason: grants.Reason(clean(x.Reason)), Detail: clean(x.Detail)}
		}
		if i < 8 {
			details = append(details, strings.TrimSpace(fmt.Sprintf("%s %s: %s", clean(series), clean(x.Reason), clean(x.Detail))))
		}
	}
	if len(all) > len(details) {
		details = append(details, fmt.Sprintf("and %d more", len(all)-len(details)))
	}
	r.Detail = strings.Join(details, "; ")
	return r
}

// announcement builds and signs the announcement.
func (s *session) announcement(exporter [32]byte) (*oiv1.Announce, error) {
	seen := make(map[string]*oiv1.SeriesSeen, len(s.welcome.Series))
	for _, x := range s.welcome.Series {
		seen[x.Series] = x
	}
	frame := new(oiv1.Announce)
	body := grants.AnnouncementBody{Exporter: grants.Binding(exporter), Nonce: grants.Binding(s.welcome.Nonce), Publisher: s.p.local.Name()}
	for _, r := range s.rels {
		g, pol := r.Pair.Grant, r.Pair.Policy
		if err := ahead(seen[r.Series], g.Object, pol.Object, r.feed()); err != nil {
			return nil, fmt.Errorf("series %s: %w", r.Series, err)
		}
		holdsGrant := holds(seen[r.Series].GetGrant(), g.Object)
		if !holdsGrant {
			frame.Grants = append(frame.Grants, g.Object.Raw)
			frame.Secrets = append(frame.Secrets, &oiv1.SeriesSecret{
				Series: r.Series, LeafKey: r.LeafKey[:], Relationship: r.Relation[:], Collection: r.Collection,
			})
		}
		if !holds(seen[r.Series].GetPolicy(), pol.Object) {
			frame.Policies = append(frame.Policies, pol.Object.Raw)
		}
		if f := r.feed(); f != nil && !holds(seen[r.Series].GetFeed(), f.Object) {
			frame.Feeds = append(frame.Feeds, f.Object.Raw)
		}
		body.Grants = append(body.Grants, g.Object.ID)
		body.Policies = append(body.Policies, pol.Object.ID)
		body.Requests = append(body.Requests, grants.Request{
			Actions: []grants.Action{grants.Discover, grants.Refresh}, Purposes: g.Body.Purposes, Scope: g.Body.Scope.Brief(), Series: r.Series,
		})
	}
	// Lists stand in ascending order; relationships are sorted by series.
	byID := func(x, y envelope.Hash) int { return bytes.Compare(x[:], y[:]) }
	slices.SortFunc(body.Grants, byID)
	slices.SortFunc(body.Policies, byID)
	now := s.p.now()
	a, err := grants.SignAnnouncement(body, grants.Stamp{
		Indexer: s.name(), Epoch: s.p.local.Epoch(envelope.UseEnvelope), Sequence: uint64(now.Unix()), At: now,
	}, s.p.local.Envelope)
	if err != nil {
		return nil, fmt.Errorf("announcement: %w", err)
	}
	if !slices.Contains(s.welcome.Features, grants.PackFeature) {
		frame.Announcement = a.Object.Raw
		return frame, nil
	}
	if frame.Packed, err = grants.Pack(a.Object.Raw); err != nil {
		return nil, fmt.Errorf("announcement: %w", err)
	}
	return frame, nil
}

// holds reports whether the indexer's newest object is o.
func holds(at *oiv1.Position, o *envelope.Object) bool {
	return at != nil && string(at.ObjectId) == string(o.ID[:])
}

// ErrRestored is returned when the indexer has seen a later grant of a series
// than this publisher has: its folder was restored from an older copy.
var ErrRestored = errors.New("the indexer has seen a later grant of this series than is stored here")

// ahead checks that what will be announced is not older than what was seen.
func ahead(seen *oiv1.SeriesSeen, grant, policy *envelope.Object, feed *grants.Feed) error {
	type presented struct {
		at *oiv1.Position
		o  *envelope.Object
	}
	all := []presented{{seen.GetGrant(), grant}, {seen.GetPolicy(), policy}}
	if feed != nil {
		all = append(all, presented{seen.GetFeed(), feed.Object})
	}
	for _, x := range all {
		if x.at == nil || holds(x.at, x.o) {
			continue
		}
		if x.at.Epoch > x.o.Epoch || (x.at.Epoch == x.o.Epoch && x.at.Sequence >= x.o.Sequence) {
			return ErrRestored
		}
	}
	return nil
}
