package publisher

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// AskHolders asks every indexer with which there is an agreement, or one of them, to
// whom it has handed pages, and keeps the answers for Status. What one of them says
// is its word alone: nothing proves it.
func (p *Publisher) AskHolders(ctx context.Context, only envelope.Name) error {
	rels, err := Relationships(p.dir)
	if err != nil {
		return err
	}
	asked := make(map[envelope.Name]bool)
	var errs []error
	for _, r := range rels {
		if asked[r.Indexer] || only != "" && r.Indexer != only {
			continue
		}
		asked[r.Indexer] = true
		if err := p.askHolders(ctx, r.Indexer, rels); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Indexer, err))
		}
	}
	return errors.Join(errs...)
}

func (p *Publisher) askHolders(ctx context.Context, indexer envelope.Name, rels []*Relationship) error {
	all, err := p.callStatus(ctx, indexer, &oiv1.StatusRequest{})
	if err != nil {
		return err
	}
	return p.keepHolders(indexer, rels, all)
}

// callStatus makes one call to an indexer's Status.
func (p *Publisher) callStatus(ctx context.Context, indexer envelope.Name, q *oiv1.StatusRequest) ([]*oiv1.Holder, error) {
	who, ok := p.trust.Lookup(indexer)
	if !ok {
		return nil, &Refused{Reason: grants.ErrUnknownPeer, Detail: string(indexer) + "; import its card with trust add"}
	}
	conn, hs, err := p.connect(who, new(counter))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	answer, err := oiv1.NewOutboundIndexingClient(conn).Status(ctx, q)
	switch status.Code(err) {
	case codes.OK:
		if n := len(answer.GetHolders()); n > maxHolders {
			return nil, fmt.Errorf("%w: %d holders, at most %d", ErrProtocol, n, maxHolders)
		}
		return answer.GetHolders(), nil
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	default:
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return nil, hs.explain(err)
}

// AskPage asks who may have been handed one page, and has not said to have dropped it.
// Each indexer that has ever acknowledged the page is asked, and no other: it would
// learn of a page that it was never offered.
func (p *Publisher) AskPage(ctx context.Context, url string) (*PageHolders, error) {
	if err := content.IsCanonical(url); err != nil {
		return nil, err
	}
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	told := &PageHolders{URL: url, AskedAt: envelope.At(p.now()), Holders: []PageHolder{}}
	h := urlHash(url)
	var errs []error
	for _, r := range rels {
		_, acked, err := agreement{p.store, r}.lookupAcked(p.store, h)
		if err != nil {
			return nil, err
		}
		if !acked {
			continue
		}
		told.Asked++
		all, err := p.callStatus(ctx, r.Indexer, &oiv1.StatusRequest{Series: r.Series, UrlHash: h[:]})
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", r.Indexer, err))
		}
		for _, h := range all {
			if h.GetSeries() == r.Series {
				told.Holders = append(told.Holders, PageHolder{Indexer: r.Indexer, Collection: r.Collection, State: clean(h.GetPage()), HolderStatus: holderOf(h)})
			}
		}
	}
	if told.Asked == 0 {
		errs = append(errs, fmt.Errorf("%w for %s", ErrNoReceipt, url))
	}
	return told, errors.Join(errs...)
}

func holderOf(h *oiv1.Holder) HolderStatus {
	return HolderStatus{
		Consumer: clean(h.GetConsumer()), Purpose: clean(h.GetPurpose()), ThirdParty: h.GetThirdParty(), Since: at(h.GetSince()), Last: at(h.GetLast()),
		Open: h.GetOpen(), ToPurge: h.GetToPurge(), PurgedAt: at(h.GetPurged()),
	}
}

// keepHolders stores what an indexer says, series by series, in the place of what it
// said before.
func (p *Publisher) keepHolders(indexer envelope.Name, rels []*Relationship, all []*oiv1.Holder) error {
	for _, r := range rels {
		if r.Indexer != indexer {
			continue
		}
		told := HoldersStatus{AskedAt: envelope.At(p.now()), Holders: []HolderStatus{}}
		for _, h := range all {
			if h.GetSeries() != r.Series {
				continue
			}
			told.Holders = append(told.Holders, holderOf(h))
		}
		if err := p.writeHolders(r, told); err != nil {
			return err
		}
	}
	return nil
}
