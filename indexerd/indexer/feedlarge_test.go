package indexer

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// TestALargePageIsNotSentToItsEndBehindARevocation withdraws consent while the pieces of
// a page go out. The stream ends amid them, and the next one tells to stop.
func TestALargePageIsNotSentToItsEndBehindARevocation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	c.push(s, puts("words", site+"a")...)
	reader := r.feed().consumer("spiffe://search.example/own", "search.index")
	first := reader.subscribe("search.index", nil)
	_, head := first.until("head")
	c.push(s, largePage(site+"large", 4<<20, 1))
	first.until("put")
	s.p.revoke(s.p.revocation(s.pair.Grant.Revoke(grants.DispositionStop)))
	came := 0
	for {
		m, err := first.stream.Recv()
		if err != nil {
			if status.Code(err) != codes.Aborted {
				t.Errorf("the stream ends with %v", err)
			}
			break
		}
		piece, ok := m.Item.(*oiv1.FeedItem_Piece)
		if !ok {
			t.Fatalf("behind %d octets comes %v", came, m)
		}
		came += len(piece.Piece.Data)
	}
	if came >= 2<<20 {
		t.Errorf("%d octets of the page come behind the revocation", came)
	}
	if words, _ := reader.subscribe("search.index", head.Cursor).until("stop"); len(words) != 1 || words[0] != "stop revoked" {
		t.Errorf("the next stream tells %q", words)
	}
}
