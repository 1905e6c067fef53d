package publisher

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	who, ok := p.trust.Lookup(indexer)
	if !ok {
		return &Refused{Reason: grants.ErrUnknownPeer, Detail: string(indexer) + "; import its card with trust add"}
	}
	conn, hs, err := p.connect(who, new(counter))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, revokeTimeout)
	defer cancel()
	answer, err := oiv1.NewOutboundIndexingClient(conn).Status(ctx, &oiv1.StatusRequest{})
	switch status.Code(err) {
	case codes.OK:
		return p.keepHolders(indexer, rels, answer.GetHolders())
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	default:
		err = fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return hs.explain(err)
}

// keepHolders stores what an indexer says, series by series, in the place of what it
// said before.
func (p *Publisher) keepHolders(indexer envelope.Name, rels []*Relationship, all []*oiv1.Holder) error {
	if len(all) > maxHolders {
		return fmt.Errorf("%w: %d holders, at most %d", ErrProtocol, len(all), maxHolders)
	}
	for _, r := range rels {
		if r.Indexer != indexer {
			continue
		}
		told := HoldersStatus{AskedAt: envelope.At(p.now()), Holders: []HolderStatus{}}
		for _, h := range all {
			if h.GetSeries() != r.Series {
				continue
			}
			told.Holders = append(told.Holders, HolderStatus{
				Consumer: clean(h.GetConsumer()), Purpose: clean(h.GetPurpose()), ThirdParty: h.GetThirdParty(), Since: at(h.GetSince()), Last: at(h.GetLast()),
				Open: h.GetOpen(), ToPurge: h.GetToPurge(), PurgedAt: at(h.GetPurged()),
			})
		}
		if err := p.writeHolders(r, told); err != nil {
			return err
		}
	}
	return nil
}
