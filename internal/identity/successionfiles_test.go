package identity

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

func TestAChangeOfKeysThatWasCutShortIsFinished(t *testing.T) {
	now := begin.Add(time.Hour)
	for _, o := range []KeyOptions{
		{Uses: []envelope.Use{envelope.UseEnvelope}},
		{Uses: []envelope.Use{envelope.UseTLS}},
		{Uses: []envelope.Use{envelope.UseTLS}, Overlap: time.Hour},
		{Uses: []envelope.Use{envelope.UseCard, envelope.UseEnvelope, envelope.UseTLS}, Lost: true},
	} {
		t.Run(fmt.Sprintf("%v, lost %t, overlap %s", o.Uses, o.Lost, o.Overlap), func(t *testing.T) {
			o.Now, o.Rand = now, &dice{n: 10}
			for done := 0; ; done++ {
				old := create(t, publisherOptions(alice))
				dir := dirOf(old)
				l, err := load(dir, now, nil)
				if err != nil {
					t.Fatal(err)
				}
				s, err := l.succeed(o)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.write(dir); err != nil {
					t.Fatal(err)
				}
				if err := keepCard(dir, s.card.Raw); err != nil {
					t.Fatal(err)
				}
				moves, err := successionMoves(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range moves[:done] {
					if err := m.do(); err != nil {
						t.Fatal(err)
					}
				}
				again, err := Load(dir, now)
				if err != nil {
					t.Fatalf("after %d of %d steps: %v", done, len(moves), err)
				}
				if again.Card.Object.ID != s.card.ID {
					t.Errorf("after %d of %d steps the card is another one", done, len(moves))
				}
				if past, err := again.PastCards(); err != nil || len(past) != 1 || past[0].Object.ID != old.Card.Object.ID {
					t.Errorf("after %d of %d steps the card before is not kept: %v", done, len(moves), err)
				}
				for _, name := range []string{successionFolder, tempPrefix + "*"} {
					if left, _ := filepath.Glob(filepath.Join(dir, name)); len(left) > 0 {
						t.Errorf("left behind: %v", left)
					}
				}
				if done == len(moves) {
					return
				}
			}
		})
	}
}

func TestTheNextTLSKeyIsShownWhenItsTurnComes(t *testing.T) {
	old := create(t, publisherOptions(alice))
	turn := begin.Add(48 * time.Hour)
	waiting := change(t, old, KeyOptions{Uses: []envelope.Use{envelope.UseTLS}, Overlap: 48 * time.Hour, Now: begin})
	if !waiting.Certificate().Leaf.Equal(old.Certificate().Leaf) {
		t.Error("the new key is shown before its turn")
	}
	if waiting.Card.Object.Epoch != 1 {
		t.Errorf("the card is of epoch %d: streams have no part in a TLS key", waiting.Card.Object.Epoch)
	}
	if _, err := ChangeKeys(dirOf(old), KeyOptions{Uses: []envelope.Use{envelope.UseTLS}, Now: begin}); err == nil {
		t.Error("a second rotation begins before the first has ended")
	}
	if changed, err := waiting.Renew(turn.Add(-time.Second), nil); changed || err != nil {
		t.Errorf("a second before: %t, %v", changed, err)
	}
	if changed, err := waiting.Renew(turn, nil); !changed || err != nil {
		t.Errorf("in its second: %t, %v", changed, err)
	}
	shown := waiting.Certificate().Leaf
	if shown.Equal(old.Certificate().Leaf) {
		t.Fatal("the old key is still shown")
	}
	for _, tt := range []struct {
		name string
		at   time.Time
		old  error
		new  error
	}{
		{"long before the turn", turn.Add(-time.Hour), nil, ErrPeerKey},
		{"about the turn, by another clock", turn.Add(-envelope.Skew), nil, nil},
		{"until the old key ends", turn.Add(graceTLS - time.Second), nil, nil},
		{"when the old key has ended", turn.Add(graceTLS), ErrPeerKey, nil},
	} {
		s := trusting(t, newClock(), waiting)
		for _, c := range []struct {
			l    *Local
			want error
		}{{old, tt.old}, {waiting, tt.new}} {
			_, _, err := VerifyPeer(handshakeOf(c.l), s, Publisher, tt.at)
			if !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", tt.name, err, c.want)
			}
		}
	}
	again, err := Load(dirOf(old), turn)
	if err != nil || !again.Certificate().Leaf.Equal(shown) {
		t.Errorf("the next start: %v", err)
	}
}

// handshakeOf is what a peer sees of l's certificate.
func handshakeOf(l *Local) tls.ConnectionState {
	return tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, PeerCertificates: []*x509.Certificate{l.Certificate().Leaf}}
}

func TestAKeyWhoseFileIsGoneCanBeReplaced(t *testing.T) {
	l := create(t, publisherOptions(alice))
	for _, name := range []string{keyFile(envelope.UseCard), keyFile(envelope.UseTLS), certificateFile} {
		if err := os.Remove(filepath.Join(l.folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	now := begin.Add(time.Hour)
	if _, err := ChangeKeys(dirOf(l), KeyOptions{Uses: []envelope.Use{envelope.UseCard}, Lost: true, Now: now}); err == nil {
		t.Error("a key that was not named is missing, and nothing is said")
	}
	fresh := change(t, l, KeyOptions{Uses: []envelope.Use{envelope.UseCard, envelope.UseTLS}, Lost: true, Now: now})
	if _, err := fresh.Card.Supersede(l.Card); !errors.Is(err, ErrByHand) {
		t.Errorf("Supersede = %v, want %v", err, ErrByHand)
	}
}

func TestWhatCannotBeReplacedChangesNothing(t *testing.T) {
	l := create(t, indexerOptions(bob))
	for _, tt := range []struct {
		name string
		o    KeyOptions
	}{
		{"no use", KeyOptions{}},
		{"the key of a log", KeyOptions{Uses: []envelope.Use{envelope.UseLog}}},
		{"a use that is none", KeyOptions{Uses: []envelope.Use{"root"}}},
		{"one use twice", KeyOptions{Uses: []envelope.Use{envelope.UseTLS, envelope.UseTLS}}},
		{"too long an overlap", KeyOptions{Uses: []envelope.Use{envelope.UseTLS}, Overlap: MaxOverlap + 1}},
		{"a clock before the keys began", KeyOptions{Uses: []envelope.Use{envelope.UseEnvelope}, Now: begin.Add(-time.Hour)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.o.Now.IsZero() {
				tt.o.Now = begin
			}
			if _, err := ChangeKeys(dirOf(l), tt.o); !errors.Is(err, ErrKeyChange) && !errors.Is(err, envelope.ErrIssuedAhead) {
				t.Errorf("ChangeKeys = %v, want %v", err, ErrKeyChange)
			}
			again, err := Load(dirOf(l), begin)
			if err != nil || again.Card.Object.ID != l.Card.Object.ID || again.Envelope.Public() != l.Envelope.Public() {
				t.Errorf("the identity has changed: %v", err)
			}
		})
	}
}
