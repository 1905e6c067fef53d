package indexer

import (
	"context"
	"crypto/sha256"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// maxHolders bounds one answer; who has more asks series by series.
const maxHolders = 4000

// Status tells a publisher, and nobody else, who was handed its pages. It needs no
// session and no live grant: what is asked after is often over.
func (s *service) Status(ctx context.Context, q *oiv1.StatusRequest) (*oiv1.RelationshipStatus, error) {
	pr, ok := peer.FromContext(ctx)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no peer")
	}
	info, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return nil, status.Error(codes.Unauthenticated, "no TLS")
	}
	who, _, err := identity.VerifyPeer(info.State, s.x.trust, identity.Publisher, s.x.cfg.Now())
	if err != nil {
		return nil, status.Error(codes.PermissionDenied, string(grants.ErrUnknownPeer))
	}
	if !s.x.posts.Allow() {
		return nil, status.Error(codes.ResourceExhausted, "too many ask at once")
	}
	h := q.GetUrlHash()
	if len(h) != 0 && len(h) != sha256.Size {
		return nil, status.Error(codes.InvalidArgument, "url_hash is no SHA-256")
	}
	if len(h) == 0 {
		h = nil
	}
	all, err := s.x.Holders(who.Card.Identity, h)
	if err != nil {
		return nil, toStatus(err)
	}
	answer := new(oiv1.RelationshipStatus)
	for _, h := range all {
		if q.GetSeries() != "" && h.Series != q.GetSeries() {
			continue
		}
		answer.Holders = append(answer.Holders, &oiv1.Holder{
			Series: h.Series, Consumer: string(h.Consumer), Purpose: string(h.Purpose), ThirdParty: h.ThirdParty, Since: seconds(h.Since),
			Last: seconds(h.Last), Open: h.Open, ToPurge: uint32(h.ToPurge), Purged: seconds(h.Purged), Page: string(h.Page),
		})
		if len(answer.Holders) == maxHolders {
			break
		}
	}
	return answer, nil
}
