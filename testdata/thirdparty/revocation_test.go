package thirdparty

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// TestARevocationUnderFullLoadIsAcknowledgedWithinASecond pushes some megabytes
// over a link that takes minutes for them, and withdraws consent meanwhile.
func TestARevocationUnderFullLoadIsAcknowledgedWithinASecond(t *testing.T) {
	p := pair.New(t, 1)
	proxy := bad(t, p)
	random := rand.NewChaCha8([32]byte{1})
	for i := range 40 {
		noise := make([]byte, 100<<10)
		random.Read(noise)
		p.Write(i, hex.EncodeToString(noise))
	}
	poison(t, proxy, "slow", "bandwidth", "upstream", `{"rate":64}`) // KB a second
	pub, err := publisher.Open(publisher.Config{Dir: p.Pub})
	pair.Check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- publisher.NewDaemon(pub, publisher.DaemonOptions{Rescan: time.Minute}).Run(ctx) }()
	until(t, time.Minute, "the session", func() bool {
		s, err := p.X.Status()
		return err == nil && s.Sessions == 1
	})
	time.Sleep(3 * time.Second) // the batch fills the link; whether it does is seen below
	before := p.Pages()
	revoked, err := publisher.Revoke(p.Pub, publisher.RevokeRequest{Disposition: grants.DispositionStop}, time.Now())
	pair.Check(t, err)
	begin := time.Now()
	pair.Check(t, pub.DeliverRevocations(t.Context(), pair.IndexerName))
	took := time.Since(begin)
	v, err := pub.Revocation(revoked[0].ID())
	pair.Check(t, err)
	t.Logf("acknowledged after %s", took)
	if len(v.Acknowledgements) == 0 || took > time.Second {
		t.Errorf("after %s: %d acknowledgements", took, len(v.Acknowledgements))
	}
	if before != 0 {
		t.Error(fmt.Errorf("%d pages were across already: the link was not under load", before))
	}
	cancel()
	if err := errors.Join(<-ended, pub.Close()); err != nil {
		t.Log(err)
	}
}
