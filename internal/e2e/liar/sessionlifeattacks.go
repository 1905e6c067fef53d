package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// cutBy is when a silent connection must have been cut.
const cutBy = 20 * time.Second

// shortLife is that of a grant which ends during its session.
const shortLife = 3 * time.Second

// lifeAttacks lie about the session itself, its order and its end.
var lifeAttacks = []attack{
	{name: "truth", lie: "none: shows that all the rest is what an indexer accepts", series: spoilt(func(*liar, *grants.Draft) {})},
	{name: "version", lie: "speaks a version that is not spoken", hello: func(h *oiv1.Hello) { h.Versions = []string{"uzpif-oi-session/9"} }},
	{name: "foreign-note", lie: "shows a checkpoint that this log never signed", hello: func(h *oiv1.Hello) {
		h.Note = []byte("search.test/indexer\n7\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n\n— search.test/indexer AAAAAAAA\n")
	}},
	{name: "no-hello", lie: "announces before it says hello", run: func(l *liar) error {
		c, err := l.open()
		if err != nil {
			return err
		}
		_, err = c.ask(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: new(oiv1.Announce)}})
		return err
	}},
	{name: "garbage-order", lie: "sends a batch before it announces", run: func(l *liar) error {
		c, err := l.greeted(nil)
		if err != nil {
			return err
		}
		return c.deliverOne(attack{}, l.honest)
	}},
	{name: "hello-twice", lie: "says hello in the middle of a session", between: func(c *line, _ *series) error { return c.greet(nil) }},
	{name: "replayed-announcement", lie: "shows the announcement of one connection on another", run: replay},
	{name: "second-session", lie: "opens a second session on one connection", run: secondSession},
	{name: "fence", lie: "goes on in a session that a newer one has ended", run: fence},
	{name: "expired", lie: "goes on under a grant that has ended", beside: true,
		series: spoilt(func(_ *liar, d *grants.Draft) { d.Lifetime = shortLife }),
		between: func(_ *line, s *series) error {
			time.Sleep(time.Until(s.rel.Pair.ExpiresAt()) + time.Second/10)
			return nil
		}},
	{name: "lapsed", lie: "stays when no grant is in force any more",
		series:  spoilt(func(_ *liar, d *grants.Draft) { d.Lifetime = shortLife }),
		between: func(c *line, s *series) error { return c.endsBy(s.rel.Pair.ExpiresAt().Add(5 * time.Second)) }},
	{name: "revoked", lie: "goes on under a grant that it has revoked", beside: true,
		series: spoilt(func(*liar, *grants.Draft) {}), between: (*line).revoke},
	{name: "revoked-again", lie: "announces a grant that it has revoked", run: func(l *liar) error {
		s, err := l.fresh(nil)
		if err != nil {
			return err
		}
		if err := l.revokeAlone(s.rel.Pair.Grant.Revoke(grants.DispositionStop)); err != nil {
			return err
		}
		_, err = l.begun(s)
		return err
	}},
	{name: "revoke-foreign", lie: "revokes the grant of another publisher by its own signature", run: func(l *liar) error {
		s, err := seriesOf(l.other)
		if err != nil {
			return err
		}
		return l.revokeAlone(s.rel.Pair.Grant.Revoke(grants.DispositionDelete))
	}},
	{name: "revoke-stolen", lie: "brings another publisher's revocation into its own session", run: revokeStolen},
	{name: "rebind-state", lie: "rebinds a state that is not held", run: func(l *liar) error {
		return l.rebind(l.honest, func(r *oiv1.Rebind) { r.Revision++ })
	}},
	{name: "rebind-foreign", lie: "rebinds the series of another publisher", run: func(l *liar) error {
		s, err := seriesOf(l.other)
		if err != nil {
			return err
		}
		return l.rebind(l.honest, func(r *oiv1.Rebind) { r.Series = s.rel.Series })
	}},
	{name: "range-foreign", lie: "asks for the state of another publisher's series", run: func(l *liar) error {
		s, err := seriesOf(l.other)
		if err != nil {
			return err
		}
		c, err := l.begun(l.honest)
		if err != nil {
			return err
		}
		return c.rows(s)
	}},
	{name: "slow-tcp", lie: "connects and begins no handshake", run: func(l *liar) error { return l.silent(nil) }},
	{name: "slow-tls", lie: "shakes hands and says nothing", run: func(l *liar) error { return l.silent(l.tls()) }},
	{name: "slow", lie: "opens a session and says nothing", run: func(l *liar) error {
		c, err := l.open()
		if err != nil {
			return err
		}
		return c.endsBy(time.Now().Add(cutBy))
	}},
	{name: "slow-announce", lie: "says hello and nothing more", run: func(l *liar) error {
		c, err := l.greeted(nil)
		if err != nil {
			return err
		}
		return c.endsBy(time.Now().Add(cutBy))
	}},
}

// replay shows on a second connection what was signed for a first.
func replay(l *liar) error {
	first, err := l.greeted(nil)
	if err != nil {
		return err
	}
	f, err := first.announcement(nil, l.honest)
	if err != nil {
		return err
	}
	second, err := l.greeted(nil)
	if err != nil {
		return err
	}
	return second.announce(f, l.honest)
}

// secondSession requires that the first session lives on.
func secondSession(l *liar) error {
	first, err := l.begun(l.honest)
	if err != nil {
		return err
	}
	second, err := l.openOn(first.conn)
	if err == nil {
		err = second.greet(nil)
	}
	if err := first.rows(l.honest); err != nil {
		return fmt.Errorf("the first session: %w", err)
	}
	return err
}

// fence goes on in a first session after a second has begun.
func fence(l *liar) error {
	first, err := l.begun(l.honest)
	if err != nil {
		return err
	}
	if _, err := l.begun(l.honest); err != nil {
		return fmt.Errorf("the second session: %w", err)
	}
	err = first.deliverOne(attack{}, l.honest)
	if err != nil && strings.HasPrefix(err.Error(), "ended Aborted") {
		return verdict("fenced")
	}
	return err
}

// endsBy waits for the end of a stream; nil if it does not come in time.
func (c *line) endsBy(t time.Time) error {
	end := make(chan error, 1)
	go func() {
		_, err := c.recv()
		end <- err
	}()
	select {
	case err := <-end:
		return err
	case <-time.After(time.Until(t)):
		return nil
	}
}

// silent opens a connection and says nothing behind TLS, or not even that.
func (l *liar) silent(config *tls.Config) error {
	conn, err := (&net.Dialer{}).DialContext(l.ctx, "tcp", l.endpoint)
	if err != nil {
		return err
	}
	l.conns = append(l.conns, conn)
	if config != nil {
		config.NextProtos = []string{"h2"}
		conn = tls.Client(conn, config)
		if err := conn.(*tls.Conn).HandshakeContext(l.ctx); err != nil {
			return err
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(cutBy)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, conn)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		return nil
	}
	return verdict("ended: cut")
}

// revoke withdraws the grant of a series in this session.
func (c *line) revoke(s *series) error {
	rev, err := c.l.revocation(s.rel.Pair.Grant.Revoke(grants.DispositionStop), c.l.local.Envelope)
	if err != nil {
		return err
	}
	return c.bring(rev)
}

func (c *line) bring(rev *grants.Revocation) error {
	f, err := c.ask(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Revocation{Revocation: &oiv1.SignedObject{Object: rev.Object.Raw}}})
	if err != nil {
		return err
	}
	if r := f.GetAcknowledgements().GetRefused(); r != nil {
		return refused(r)
	}
	return nil
}

func (l *liar) revocation(b grants.RevocationBody, signer *envelope.Signer) (*grants.Revocation, error) {
	return grants.SignRevocation(b, l.stamp(1), signer)
}

// revokeAlone brings a revocation by the call that needs no session.
func (l *liar) revokeAlone(b grants.RevocationBody) error {
	rev, err := l.revocation(b, l.local.Envelope)
	if err != nil {
		return err
	}
	conn, err := l.connect()
	if err != nil {
		return err
	}
	a, err := oiv1.NewOutboundIndexingClient(conn).Revoke(l.ctx, &oiv1.SignedObject{Object: rev.Object.Raw})
	switch {
	case err != nil:
		return ended(err)
	case a.Refused != nil:
		return refused(a.Refused)
	}
	return nil
}

// revokeStolen signs as the other publisher, as if its file had been found.
func revokeStolen(l *liar) error {
	s, err := seriesOf(l.other)
	if err != nil {
		return err
	}
	other, err := identity.Load(l.other, time.Now())
	if err != nil {
		return err
	}
	rev, err := l.revocation(s.rel.Pair.Grant.Revoke(grants.DispositionDelete), other.Envelope)
	if err != nil {
		return err
	}
	c, err := l.begun(l.honest)
	if err != nil {
		return err
	}
	return c.bring(rev)
}

// rebind asks to take the state over once more, but for what change does.
func (l *liar) rebind(s *series, change func(*oiv1.Rebind)) error {
	c, err := l.begun(s)
	if err != nil {
		return err
	}
	root, err := rootOf(s.pages)
	if err != nil {
		return err
	}
	id := s.rel.Pair.Grant.Object.ID
	r := &oiv1.Rebind{Series: s.rel.Series, GrantId: id[:], JournalEpoch: s.epoch, Revision: s.revision, StateRoot: root[:]}
	change(r)
	if err := c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Rebind{Rebind: r}}); err != nil {
		return err
	}
	return c.result()
}
