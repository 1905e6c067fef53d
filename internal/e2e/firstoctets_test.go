package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// A recorder stands between a publisher and an indexer, and keeps what the
// publisher sends: before the other side has said anything, and in all.
type recorder struct {
	net.Listener
	upstream string
	links    sync.WaitGroup

	// mu guards what follows.
	mu       sync.Mutex
	answered bool // the other side has said something, on any connection
	first    []byte
	all      []byte
	count    int // of connections
}

func recordOctets(t *testing.T, upstream string) *recorder {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	pair.Check(t, err)
	r := &recorder{Listener: l, upstream: upstream}
	r.links.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.links.Go(func() { r.carry(c) })
		}
	})
	t.Cleanup(func() { l.Close(); r.links.Wait() })
	return r
}

func (r *recorder) carry(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("tcp", r.upstream)
	if err != nil {
		return
	}
	defer up.Close()
	r.mu.Lock()
	r.count++
	r.mu.Unlock()
	var down sync.WaitGroup
	down.Go(func() {
		io.Copy(writerFunc(func(b []byte) (int, error) {
			r.mu.Lock()
			r.answered = true
			r.mu.Unlock()
			return c.Write(b)
		}), up)
		c.Close()
	})
	io.Copy(writerFunc(func(b []byte) (int, error) {
		r.mu.Lock()
		if !r.answered {
			r.first = append(r.first, b...)
		}
		r.all = append(r.all, b...)
		r.mu.Unlock()
		return up.Write(b)
	}), c)
	up.Close()
	down.Wait()
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (r *recorder) seen() (first, all []byte, links int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.first), slices.Clone(r.all), r.count
}

// siteSecrets are what would give the publisher or its site away, in the forms
// in which they could be written.
func siteSecrets(t *testing.T, p *programs) map[string][]byte {
	t.Helper()
	local, err := identity.Load(p.Pub, time.Now())
	pair.Check(t, err)
	rels, err := publisher.Relationships(p.Pub)
	pair.Check(t, err)
	rel, grant := rels[0], rels[0].Pair.Grant
	secrets := map[string][]byte{
		"the publisher's trust domain": []byte("docs.test"), "its name": []byte("publisher"), "its origin": []byte(pair.Origin),
		"a page": []byte("p1.html"), "its title": []byte("Page 1"), "the collection": []byte("\x04site"),
		"the series": []byte(rel.Series), "the leaf key": rel.LeafKey[:], "the grant's octets": grant.Object.Raw[:64],
		"the grant's id": grant.Object.ID[:], "the policy's id": rel.Pair.Policy.Object.ID[:],
	}
	for _, key := range local.Card.Keys {
		secrets["the "+string(key.Use)+" key"] = key.PublicKey.Bytes()
	}
	for name, octets := range secrets {
		if len(octets) == 32 {
			secrets[name+" in hex"] = []byte(hex.EncodeToString(octets))
			secrets[name+" in base64url"] = []byte(base64.RawURLEncoding.EncodeToString(octets))
		}
	}
	return secrets
}

// greeting reads a TLS client's first record, which has to be all there is, and
// gives the number and content of each of its extensions.
func greeting(first []byte) (map[uint16][]byte, error) {
	if len(first) < 9 || first[0] != 22 || int(binary.BigEndian.Uint16(first[3:])) != len(first)-5 || first[5] != 1 {
		return nil, errors.New("not one record with a client's greeting, and nothing else")
	}
	b := first[9+2+32:] // version and random
	for _, width := range []int{1, 2, 1} {
		if len(b) < width { // session id, cipher suites, compressions
			return nil, errors.New("cut short")
		}
		length := int(b[0])
		if width == 2 {
			length = int(binary.BigEndian.Uint16(b))
		}
		if len(b) < width+length {
			return nil, errors.New("cut short")
		}
		b = b[width+length:]
	}
	extensions := make(map[uint16][]byte)
	for b = b[2:]; len(b) >= 4; {
		length := 4 + int(binary.BigEndian.Uint16(b[2:]))
		if len(b) < length {
			return nil, errors.New("cut short")
		}
		extensions[binary.BigEndian.Uint16(b)] = b[4:length]
		b = b[length:]
	}
	return extensions, nil
}

// knownExtensions are those that TLS 1.3 clients send whoever they are. What
// would resume an earlier session, and so name it (35, 41, 42), is not among them.
var knownExtensions = map[uint16]string{
	0: "server_name", 5: "status_request", 10: "supported_groups", 11: "ec_point_formats", 13: "signature_algorithms", 16: "alpn",
	18: "signed_certificate_timestamp", 23: "extended_master_secret", 43: "supported_versions", 50: "signature_algorithms_cert",
	51: "key_share", 0xff01: "renegotiation_info",
}

// TestNothingOfTheSiteIsSentBeforeTheIndexerIsKnown records what a publisher
// sends before the other side has said a word: one TLS greeting, which names
// the indexer at most (UZPIF-OI 8, 12.1).
func TestNothingOfTheSiteIsSentBeforeTheIndexerIsKnown(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 3)
	p.bin = buildPrograms(t)
	p.startIndexerd()
	r := recordOctets(t, p.Address)
	p.Dial(r.Addr().String())
	for range 2 { // the second push could name the session of the first
		p.pushAll()
		first, all, links := r.seen()
		if links == 0 || len(all) < 2000 {
			t.Fatalf("%d connections and %d octets were recorded", links, len(all))
		}
		extensions, err := greeting(first)
		pair.Check(t, err)
		for number, content := range extensions {
			if knownExtensions[number] == "" {
				t.Errorf("the greeting has extension %d: %x", number, content)
			}
		}
		for name, octets := range siteSecrets(t, p) {
			if bytes.Contains(first, octets) {
				t.Errorf("%s stands in the greeting", name)
			}
			if bytes.Contains(all, octets) {
				t.Errorf("%s crosses the network in the clear", name)
			}
		}
		r.mu.Lock()
		r.first, r.all, r.answered = nil, nil, false
		r.mu.Unlock()
	}
	// What was looked for is written like that: the publisher's own card holds it.
	local, err := identity.Load(p.Pub, time.Now())
	pair.Check(t, err)
	for _, name := range []string{"the publisher's trust domain", "its origin", "the tls key in base64url"} {
		if !bytes.Contains(local.Card.Object.Raw, siteSecrets(t, p)[name]) {
			t.Errorf("%s does not stand in the card", name)
		}
	}
}

// TestAnImpostorLearnsNothing answers the publisher under the indexer's name
// and another key: after its greeting the publisher sends an alert, and neither
// its certificate nor a word of the session.
func TestAnImpostorLearnsNothing(t *testing.T) {
	t.Parallel()
	p := newPrograms(t, 3)
	p.bin = buildPrograms(t)
	impostor := pair.New(t, 1) // an indexer of the same name, with keys of its own
	r := recordOctets(t, impostor.Address)
	p.Dial(r.Addr().String())
	push, out := p.startPush()
	if err := push.Wait(); err == nil {
		t.Fatalf("an impostor was pushed to: %s", out)
	}
	first, all, links := r.seen()
	if _, err := greeting(first); err != nil || links != 1 {
		t.Fatalf("%d connections; the greeting: %v", links, err)
	}
	if more := len(all) - len(first); more > 64 {
		t.Errorf("%d octets were sent behind the greeting; an alert has some 30", more)
	}
	for name, octets := range siteSecrets(t, p) {
		if bytes.Contains(all, octets) {
			t.Errorf("%s was sent to an impostor", name)
		}
	}
	if !bytes.Contains(out.Bytes(), []byte(pair.IndexerName)) {
		t.Errorf("the publisher's operator is told %s", fmt.Sprintf("%.300s", out))
	}
}
