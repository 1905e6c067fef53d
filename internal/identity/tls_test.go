package identity

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// pair is a publisher and an indexer that trust one another.
type pair struct {
	clock              *clock
	publisher, indexer *Local
	ofIndexer          *Trust // whom the indexer trusts
	ofPublisher        *Trust
}

func newPair(t testing.TB) *pair {
	p := &pair{clock: newClock(), publisher: create(t, publisherOptions(alice)), indexer: create(t, indexerOptions(bob))}
	p.ofIndexer = trusting(t, p.clock, p.publisher)
	p.ofPublisher = trusting(t, p.clock, p.indexer)
	return p
}

func (p *pair) server() *tls.Config {
	return ServerConfig(p.indexer.Certificate, p.ofIndexer, Publisher, p.clock.now)
}

func (p *pair) client() *tls.Config {
	return ClientConfig(p.publisher.Certificate, p.ofPublisher, Indexer, bob, p.clock.now)
}

// An end is what one side of a connection saw.
type end struct {
	state tls.ConnectionState
	err   error
}

// handshake connects the two over the loopback and lets one octet pass each
// way: a client in TLS 1.3 learns only then that it was refused.
func handshake(t testing.TB, server, client *tls.Config) (s, c end) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan end, 1)
	go func() {
		raw, err := l.Accept()
		if err != nil {
			done <- end{err: err}
			return
		}
		done <- exchange(tls.Server(raw, server), raw)
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c = exchange(tls.Client(raw, client), raw)
	return <-done, c
}

func exchange(conn *tls.Conn, raw net.Conn) end {
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(10 * time.Second))
	err := conn.Handshake()
	if err == nil {
		_, err = conn.Write([]byte{1})
	}
	if err == nil {
		_, err = io.ReadFull(conn, make([]byte, 1))
	}
	return end{conn.ConnectionState(), err}
}

func TestTrustedPairConnects(t *testing.T) {
	p := newPair(t)
	s, c := handshake(t, p.server(), p.client())
	if s.err != nil || c.err != nil {
		t.Fatalf("server: %v; client: %v", s.err, c.err)
	}
	for _, tt := range []struct {
		end   end
		trust *Trust
		local *Local
	}{{s, p.ofIndexer, p.publisher}, {c, p.ofPublisher, p.indexer}} {
		if tt.end.state.Version != tls.VersionTLS13 || tt.end.state.NegotiatedProtocol != "h2" || tt.end.state.DidResume {
			t.Errorf("state %+v", tt.end.state)
		}
		name, notAfter, err := PeerOf(tt.end.state)
		if err != nil || name != tt.local.Name() || !notAfter.Equal(begin.Add(lifetime)) {
			t.Errorf("PeerOf = %s, %s, %v", name, notAfter, err)
		}
		peer, until, err := VerifyPeer(tt.end.state, tt.trust, tt.local.Role(), begin)
		if err != nil || peer.Card.Identity != name || !until.Equal(notAfter) {
			t.Errorf("VerifyPeer = %v, %s, %v", peer, until, err)
		}
	}
	if _, _, err := PeerOf(tls.ConnectionState{}); !errors.Is(err, ErrCertificate) {
		t.Errorf("PeerOf nothing = %v", err)
	}
}

func TestAnotherIdentitysKeyIsNotThePeers(t *testing.T) {
	p := newPair(t)
	evil := create(t, publisherOptions(mallory)) // of the trust domain of alice
	add(t, p.ofIndexer, evil)
	asAlice := func(c *x509.Certificate) { c.URIs = []*url.URL{uri(alice)} }
	_, unknown, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		show func() *tls.Certificate
		want error
	}{
		{"the right name with a key that nobody lists", forge(t, unknown, asAlice), ErrPeerKey},
		{"the right name with the TLS key of another identity's card", forge(t, evil.tlsKey, asAlice), ErrPeerKey},
		{"the right name with another of its own keys", forge(t, privateKey(t, p.publisher, envelope.UseEnvelope), asAlice), ErrPeerKey},
		{"another identity with its own key", evil.Certificate, nil},
		{"an unknown identity", forge(t, unknown, func(c *x509.Certificate) { c.URIs = []*url.URL{uri("spiffe://example.com/x")} }), ErrUnknownPeer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := handshake(t, p.server(), ClientConfig(tt.show, p.ofPublisher, Indexer, bob, p.clock.now))
			if !errors.Is(s.err, tt.want) {
				t.Errorf("server: %v, want %v", s.err, tt.want)
			}
		})
	}
}

// privateKey reads one of l's keys back from its file.
func privateKey(t testing.TB, l *Local, use envelope.Use) ed25519.PrivateKey {
	t.Helper()
	k, err := readKey(l.folder + "/" + keyFile(use))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestClientTalksOnlyToWhomItCalled(t *testing.T) {
	p := newPair(t)
	o := indexerOptions("spiffe://other.example/indexer")
	o.Endpoint, o.LogURL = "other.example:7443", "https://other.example/log"
	other := create(t, o)
	asBob := func(c *x509.Certificate) { c.URIs = []*url.URL{uri(bob)} }
	impostor := forge(t, other.tlsKey, asBob)
	clientOnly := forge(t, p.indexer.tlsKey, func(c *x509.Certificate) {
		asBob(c)
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
	for _, tt := range []struct {
		name    string
		trusted bool // other is a trusted identity too
		show    func() *tls.Certificate
		want    error
	}{
		{"another trusted indexer", true, other.Certificate, ErrWrongPeer},
		{"an indexer that is not trusted", false, other.Certificate, ErrUnknownPeer},
		{"the name with another trusted indexer's key", true, impostor, ErrPeerKey},
		{"a certificate for clients only", false, clientOnly, ErrCertificate},
		{"a publisher", false, p.publisher.Certificate, ErrRole},
		{"the indexer", true, p.indexer.Certificate, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			trust := trusting(t, p.clock, p.indexer, p.publisher)
			if tt.trusted {
				add(t, trust, other)
			}
			client := ClientConfig(p.publisher.Certificate, trust, Indexer, bob, p.clock.now)
			_, c := handshake(t, ServerConfig(tt.show, p.ofIndexer, Publisher, p.clock.now), client)
			if !errors.Is(c.err, tt.want) {
				t.Errorf("client: %v, want %v", c.err, tt.want)
			}
		})
	}
}

func TestServerRefusesTheWrongRole(t *testing.T) {
	p := newPair(t)
	add(t, p.ofIndexer, p.indexer)
	client := ClientConfig(p.indexer.Certificate, p.ofPublisher, Indexer, bob, p.clock.now)
	if s, _ := handshake(t, p.server(), client); !errors.Is(s.err, ErrRole) {
		t.Errorf("server: %v, want %v", s.err, ErrRole)
	}
}

func TestServerAsksForACertificate(t *testing.T) {
	p := newPair(t)
	config := p.client()
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return new(tls.Certificate), nil }
	if s, c := handshake(t, p.server(), config); s.err == nil || c.err == nil {
		t.Errorf("server: %v; client: %v", s.err, c.err)
	}
	none := ClientConfig(func() *tls.Certificate { return nil }, p.ofPublisher, Indexer, bob, p.clock.now)
	if _, c := handshake(t, p.server(), none); !errors.Is(c.err, ErrCertificate) {
		t.Errorf("client without a certificate: %v", c.err)
	}
}

func TestCertificateChainIsRefused(t *testing.T) {
	p := newPair(t)
	long := *p.publisher.Certificate()
	long.Certificate = [][]byte{long.Certificate[0], p.indexer.Certificate().Certificate[0]}
	client := ClientConfig(func() *tls.Certificate { return &long }, p.ofPublisher, Indexer, bob, p.clock.now)
	if s, _ := handshake(t, p.server(), client); !errors.Is(s.err, ErrCertificate) {
		t.Errorf("server: %v, want %v", s.err, ErrCertificate)
	}
}

func TestCertificateSignedByAnotherIsRefused(t *testing.T) {
	p := newPair(t)
	authority := p.indexer.tlsKey
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: begin.Add(time.Hour), URIs: []*url.URL{uri(alice)}}
	der, err := x509.CreateCertificate(rand.Reader, template, p.indexer.Certificate().Leaf, p.publisher.tlsKey.Public(), authority)
	if err != nil {
		t.Fatal(err)
	}
	shown := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: p.publisher.tlsKey}
	client := ClientConfig(func() *tls.Certificate { return shown }, p.ofPublisher, Indexer, bob, p.clock.now)
	if s, _ := handshake(t, p.server(), client); !errors.Is(s.err, ErrCertificate) {
		t.Errorf("server: %v, want %v", s.err, ErrCertificate)
	}
}

func TestKeyOfAnotherAlgorithmIsRefused(t *testing.T) {
	p := newPair(t)
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: begin, NotAfter: begin.Add(time.Hour), URIs: []*url.URL{uri(alice)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	shown := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: k}
	client := ClientConfig(func() *tls.Certificate { return shown }, p.ofPublisher, Indexer, bob, p.clock.now)
	if s, _ := handshake(t, p.server(), client); !errors.Is(s.err, ErrPeerKey) {
		t.Errorf("server: %v, want %v", s.err, ErrPeerKey)
	}
}

func TestOlderTLSIsRefused(t *testing.T) {
	p := newPair(t)
	client := p.client()
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if s, _ := handshake(t, p.server(), client); s.err == nil {
		t.Error("the server speaks TLS 1.2")
	}
	server := p.server()
	server.MinVersion, server.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, c := handshake(t, server, p.client()); c.err == nil {
		t.Error("the client speaks TLS 1.2")
	}
	// Should a caller lower the version on both sides, the verdict stays.
	if _, c := handshake(t, server, client); !errors.Is(c.err, ErrCertificate) {
		t.Errorf("client: %v, want %v", c.err, ErrCertificate)
	}
}

func TestNothingIsResumed(t *testing.T) {
	p := newPair(t)
	server, client := p.server(), p.client()
	client.SessionTicketsDisabled = false
	client.ClientSessionCache = tls.NewLRUClientSessionCache(8)
	client.ServerName = "search.example"
	for range 2 {
		s, c := handshake(t, server, client)
		if s.err != nil || c.err != nil || s.state.DidResume || c.state.DidResume {
			t.Fatalf("server: %v, resumed %v; client: %v, resumed %v", s.err, s.state.DidResume, c.err, c.state.DidResume)
		}
	}
	// Even with tickets on, against what ServerConfig says, a resumed
	// connection is refused: VerifyConnection runs for it too.
	server.SessionTicketsDisabled = false
	if s, c := handshake(t, server, client); s.err != nil || c.err != nil {
		t.Fatalf("server: %v; client: %v", s.err, c.err)
	}
	if s, c := handshake(t, server, client); !errors.Is(s.err, ErrCertificate) && !errors.Is(c.err, ErrCertificate) {
		t.Errorf("server: %v, resumed %v; client: %v", s.err, s.state.DidResume, c.err)
	}
}

func TestRemovedPeerIsRefusedWithoutRestart(t *testing.T) {
	p := newPair(t)
	server, client := p.server(), p.client()
	s, c := handshake(t, server, client)
	if s.err != nil || c.err != nil {
		t.Fatalf("server: %v; client: %v", s.err, c.err)
	}
	// Another process removes it, as "trust remove" does.
	command := openTrust(t, p.ofIndexer.dir, TrustOptions{Now: p.clock.now})
	if err := command.Remove(alice); err != nil {
		t.Fatal(err)
	}
	p.clock.advance(lookEvery)
	if _, _, err := VerifyPeer(s.state, p.ofIndexer, Publisher, p.clock.now()); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("the connection that lives: %v, want %v", err, ErrUnknownPeer)
	}
	if s, _ := handshake(t, server, client); !errors.Is(s.err, ErrUnknownPeer) {
		t.Errorf("the next handshake: %v, want %v", s.err, ErrUnknownPeer)
	}
	add(t, command, p.publisher)
	p.clock.advance(lookEvery)
	if s, c := handshake(t, server, client); s.err != nil || c.err != nil {
		t.Errorf("trusted again: server: %v; client: %v", s.err, c.err)
	}
}

func TestRenewedCertificateNeedsNoNewCard(t *testing.T) {
	p := newPair(t)
	server, client := p.server(), p.client()
	p.clock.advance(lifetime)
	if s, _ := handshake(t, server, client); s.err == nil {
		t.Error("an expired certificate connects")
	}
	for _, l := range []*Local{p.publisher, p.indexer} {
		if changed, err := l.Renew(p.clock.now(), nil); err != nil || !changed {
			t.Fatalf("Renew = %v, %v", changed, err)
		}
	}
	if s, c := handshake(t, server, client); s.err != nil || c.err != nil {
		t.Errorf("server: %v; client: %v", s.err, c.err)
	}
}

func TestKeyCountsOnlyInItsEpochsAndValidity(t *testing.T) {
	p := newPair(t)
	spare := newSigner(t, &dice{})
	ends := begin.Add(time.Hour)
	for _, tt := range []struct {
		name   string
		change func(tlsKey *Key, h *envelope.Header)
		at     time.Time
		want   error
		until  time.Time
	}{
		{"a key without end", func(*Key, *envelope.Header) {}, begin, nil, begin.Add(lifetime)},
		{"a key that ends before its certificate", func(k *Key, _ *envelope.Header) { k.Validity.NotAfter = envelope.At(ends) }, begin, nil, ends},
		{"a card that ends before its certificate", func(_ *Key, h *envelope.Header) { h.ExpiresAt = ends }, begin, nil, ends},
		{"a key at its end", func(k *Key, _ *envelope.Header) { k.Validity.NotAfter = envelope.At(ends) }, ends, ErrPeerKey, time.Time{}},
		{"a card at its end", func(_ *Key, h *envelope.Header) { h.ExpiresAt = ends }, ends, ErrPeerKey, time.Time{}},
		{"a key before its beginning", func(k *Key, _ *envelope.Header) { k.Validity.NotBefore = envelope.At(ends) }, begin, ErrPeerKey, time.Time{}},
		{"a key of an epoch that is past", func(k *Key, h *envelope.Header) { k.Epochs.Last, h.Epoch = 1, 2 }, begin, ErrPeerKey, time.Time{}},
		{"a key that was lost", func(k *Key, _ *envelope.Header) {
			k.Lost, k.Epochs.Last, k.Validity.NotAfter = true, 1, envelope.At(ends)
		}, begin, ErrPeerKey, time.Time{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw := reissue(t, p.publisher, func(c *Card, h *envelope.Header) {
				i := key(t, c, envelope.UseTLS)
				successor := c.Keys[i]
				successor.PublicKey = spare.Public()
				tt.change(&c.Keys[i], h)
				c.Keys = append(c.Keys, successor) // so that the role has what it needs
			})
			trust := trusting(t, p.clock, p.publisher)
			card, err := AuthenticateCard(raw)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := trust.Add(raw, AddOptions{Now: begin, Fingerprint: card.Fingerprint()}); err != nil {
				t.Fatal(err)
			}
			cs := tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, PeerCertificates: []*x509.Certificate{p.publisher.Certificate().Leaf}}
			_, until, err := VerifyPeer(cs, trust, Publisher, tt.at)
			if !errors.Is(err, tt.want) || !until.Equal(tt.until) {
				t.Errorf("VerifyPeer = %s, %v, want %s, %v", until, err, tt.until, tt.want)
			}
		})
	}
}

func BenchmarkHandshake(b *testing.B) {
	p := newPair(b)
	server, client := p.server(), p.client()
	for b.Loop() {
		if s, c := handshake(b, server, client); s.err != nil || c.err != nil {
			b.Fatalf("server: %v; client: %v", s.err, c.err)
		}
	}
}
