package main

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

const (
	sessionVersion = "uzpif-oi-session/1"
	exporterLabel  = "EXPORTER-uzpif-oi-announce-v1"
	// patience is the most that one attack takes.
	patience = time.Minute
)

// An attack is one lie. Each hook changes one step of an honest delivery of
// one page, and is nil where the step stays honest; run takes the place of the
// whole.
type attack struct {
	name, lie string
	series    func(*liar) (*series, error)      // default: the one of the folder's grant
	beside    bool                              // the folder's grant is announced as well
	hello     func(*oiv1.Hello)                 //
	asks      func(*liar, *announcementBody)    // before it is signed
	presents  func(*liar, *oiv1.Announce) error // after
	between   func(*line, *series) error        // announced, and nothing sent yet
	changes   func(*series) []change            // default: one new page
	batch     func(*parcel)                     // before it is signed and packed
	packed    func(*parcel)                     // after
	run       func(*liar) error
}

// tell makes the honest delivery, but for what the attack changes. It returns
// nil when everything was accepted.
func (l *liar) tell(a attack) error {
	if a.run != nil {
		return a.run(l)
	}
	s := l.honest
	if a.series != nil {
		var err error
		if s, err = a.series(l); err != nil {
			return err
		}
	}
	c, err := l.greeted(a.hello)
	if err != nil {
		return err
	}
	all := []*series{s}
	if a.beside {
		all = append(all, l.honest)
	}
	f, err := c.announcement(a.asks, all...)
	if err != nil {
		return err
	}
	if a.presents != nil {
		if err := a.presents(l, f); err != nil {
			return err
		}
	}
	if err := c.announce(f, all...); err != nil {
		return err
	}
	if a.between != nil {
		if err := a.between(c, s); err != nil {
			return err
		}
	}
	return c.deliverOne(a, s)
}

// folders is what the command line says.
type folders struct{ dir, other, indexerDir, endpoint string }

// A liar is a publisher by its identity; its folder is only read.
type liar struct {
	folders
	local    *identity.Local
	trust    *identity.Trust
	indexer  envelope.Name
	honest   *series
	stranger *envelope.Signer // a key that no card lists
	ctx      context.Context
	cancel   context.CancelFunc
	conns    []io.Closer
}

func newLiar(f folders) (*liar, error) {
	l := &liar{folders: f}
	var err error
	if l.local, err = identity.Load(f.dir, time.Now()); err != nil {
		return nil, err
	}
	if l.trust, err = publisher.OpenTrust(f.dir); err != nil {
		return nil, err
	}
	if l.honest, err = seriesOf(f.dir); err != nil {
		return nil, err
	}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	if l.stranger, err = envelope.NewSigner(key); err != nil {
		return nil, err
	}
	l.indexer = l.honest.rel.Indexer
	l.ctx, l.cancel = context.WithTimeout(context.Background(), patience)
	return l, nil
}

func (l *liar) close() {
	l.cancel()
	for _, c := range l.conns {
		c.Close()
	}
}

func (l *liar) tls() *tls.Config {
	return identity.ClientConfig(l.local.Certificate, l.trust, identity.Indexer, l.indexer, time.Now)
}

func (l *liar) connect() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+l.endpoint, grpc.WithTransportCredentials(credentials.NewTLS(l.tls())))
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}

// A line is one stream.
type line struct {
	l       *liar
	conn    *grpc.ClientConn
	stream  grpc.BidiStreamingClient[oiv1.PublisherFrame, oiv1.IndexerFrame]
	welcome *oiv1.Welcome
}

// open opens a stream on a connection of its own, and says nothing.
func (l *liar) open() (*line, error) {
	conn, err := l.connect()
	if err != nil {
		return nil, err
	}
	return l.openOn(conn)
}

func (l *liar) openOn(conn *grpc.ClientConn) (*line, error) {
	c := &line{l: l, conn: conn}
	var err error
	if c.stream, err = oiv1.NewOutboundIndexingClient(conn).Session(l.ctx); err != nil {
		return nil, ended(err)
	}
	return c, nil
}

// greeted is a stream that is past Welcome.
func (l *liar) greeted(change func(*oiv1.Hello)) (*line, error) {
	c, err := l.open()
	if err != nil {
		return nil, err
	}
	return c, c.greet(change)
}

func (c *line) greet(change func(*oiv1.Hello)) error {
	h := &oiv1.Hello{Versions: []string{sessionVersion}}
	if change != nil {
		change(h)
	}
	f, err := c.ask(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: h}})
	if err != nil {
		return err
	}
	if c.welcome = f.GetWelcome(); c.welcome == nil {
		return fmt.Errorf("no welcome but %v", f)
	}
	return nil
}

// begun is a stream on which the series are announced and admitted.
func (l *liar) begun(all ...*series) (*line, error) {
	c, err := l.greeted(nil)
	if err != nil {
		return nil, err
	}
	f, err := c.announcement(nil, all...)
	if err != nil {
		return nil, err
	}
	return c, c.announce(f, all...)
}

// send ignores that the stream has ended: recv tells why.
func (c *line) send(f *oiv1.PublisherFrame) error {
	if err := c.stream.Send(f); err != nil && !errors.Is(err, io.EOF) {
		return ended(err)
	}
	return nil
}

// recv is the next frame that is no heartbeat; a fault and an end are verdicts.
func (c *line) recv() (*oiv1.IndexerFrame, error) {
	for {
		f, err := c.stream.Recv()
		switch {
		case err != nil:
			return nil, ended(err)
		case f.GetFault() != nil:
			return nil, refused(f.GetFault())
		case f.GetHeartbeat() == nil:
			return f, nil
		}
	}
}

func (c *line) ask(f *oiv1.PublisherFrame) (*oiv1.IndexerFrame, error) {
	if err := c.send(f); err != nil {
		return nil, err
	}
	return c.recv()
}

func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return verdict("ended OK")
	}
	s := status.Convert(err)
	return verdict(fmt.Sprintf("ended %s: %s", s.Code(), s.Message()))
}

func refused(f *oiv1.Fault) error { return told("refused", f.Reason, f.Detail) }

func told(what, reason, detail string) error {
	return verdict(fmt.Sprintf("%s %s: %s", what, reason, detail))
}

// exporter is the secret that binds an announcement to the stream's connection.
func (c *line) exporter() (grants.Binding, error) {
	pr, ok := peer.FromContext(c.stream.Context())
	if !ok {
		return grants.Binding{}, errors.New("no peer")
	}
	info, ok := pr.AuthInfo.(credentials.TLSInfo)
	if !ok {
		return grants.Binding{}, errors.New("no TLS")
	}
	b, err := info.State.ExportKeyingMaterial(exporterLabel, nil, len(grants.Binding{}))
	if err != nil {
		return grants.Binding{}, err
	}
	return grants.Binding(b), nil
}
