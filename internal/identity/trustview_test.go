package identity

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

func TestChangesOfAnotherProcessAreSeen(t *testing.T) {
	c := newClock()
	a := create(t, publisherOptions(alice))
	daemon := trusting(t, c)
	command := openTrust(t, daemon.dir, TrustOptions{Now: c.now})
	add(t, command, a)
	if _, ok := daemon.Lookup(alice); ok {
		t.Error("the folder is looked at more often than promised")
	}
	c.advance(lookEvery)
	if _, ok := daemon.Lookup(alice); !ok {
		t.Error("an added identity is not seen")
	}
	keys := daemon.KeysOf(alice)
	if err := command.Remove(alice); err != nil {
		t.Fatal(err)
	}
	c.advance(lookEvery)
	if _, ok := keys.LookupKey(a.Envelope.Public().ID()); ok {
		t.Error("a removed identity's key still counts")
	}
	add(t, command, a)
	c.advance(-time.Hour) // a clock that was set back does not stop the looking
	if _, ok := daemon.Lookup(alice); !ok {
		t.Error("an identity added again is not seen")
	}
}

func TestRewrittenInPlaceIsSeen(t *testing.T) {
	c := newClock()
	c.advance(time.Since(begin)) // file times are those of the system
	a := create(t, publisherOptions(alice))
	s := trusting(t, c, a)
	p, _ := s.Lookup(alice)
	path := filepath.Join(s.dir, fileName(alice))
	// As long as before, and perhaps within one tick of the file's time.
	for _, o := range []Origin{"https://a.example", "https://b.example", "https://c.example"} {
		q := *p
		q.Origins = []Origin{o}
		data, err := encodePeer(&q)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c.advance(lookEvery)
		if owner, ok := s.OwnerOf(o); !ok || owner != alice {
			t.Errorf("OwnerOf(%s) = %v, %v; %v", o, owner, ok, s.Err())
		}
	}
}

func TestSwappedLinkIsSeen(t *testing.T) {
	c := newClock()
	a, m := create(t, publisherOptions(alice)), create(t, publisherOptions(mallory))
	one, two := trusting(t, c, a), trusting(t, c, m)
	link := filepath.Join(t.TempDir(), "trust")
	if err := os.Symlink(one.dir, link); err != nil {
		t.Fatal(err)
	}
	s := openTrust(t, link, TrustOptions{Now: c.now})
	if err := os.Symlink(two.dir, link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
	c.advance(lookEvery)
	_, old := s.Lookup(alice)
	_, fresh := s.Lookup(mallory)
	if old || !fresh {
		t.Errorf("after the swap: the old folder %v, the new one %v", old, fresh)
	}
}

func TestBadTrustFileKeepsTheOldRecord(t *testing.T) {
	c := newClock()
	a, b, m := create(t, publisherOptions(alice)), create(t, indexerOptions(bob)), create(t, publisherOptions(mallory))
	var reports []error
	dir := t.TempDir()
	s := openTrust(t, dir, TrustOptions{Now: c.now, Report: func(err error) { reports = append(reports, err) }})
	add(t, s, a)
	add(t, s, b)
	path := filepath.Join(dir, fileName(alice))
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{
		"torn": good[:len(good)/2], "empty": nil, "not canonical": append(bytes.Clone(good), '\n'),
		"another identity's": mustRead(t, filepath.Join(dir, fileName(bob))),
	} {
		reports = nil
		if err := writeFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			c.advance(lookEvery)
			if _, ok := s.Lookup(alice); !ok {
				t.Errorf("%s: the old record is lost", name)
			}
		}
		if len(reports) != 1 || s.Err() == nil {
			t.Errorf("%s: reports %v, Err %v", name, reports, s.Err())
		}
	}
	// It holds up neither an addition nor a removal.
	add(t, s, m)
	if err := s.Remove(bob); err != nil {
		t.Fatal(err)
	}
	_, added := s.Lookup(mallory)
	_, removed := s.Lookup(bob)
	if !added || removed {
		t.Errorf("beside a bad file: added %v, removed %v", added, !removed)
	}
	if _, err := OpenTrust(dir, TrustOptions{Now: c.now}); err == nil {
		t.Error("a store with a bad file opens")
	}
	// The operator takes it away, and the trust with it.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	c.advance(lookEvery)
	if _, ok := s.Lookup(alice); ok || s.Err() != nil {
		t.Errorf("after the bad file is gone: found %v, Err %v", ok, s.Err())
	}
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestNewcomerThatConflictsIsTheOneRefused(t *testing.T) {
	c := newClock()
	a, m := create(t, publisherOptions(alice)), create(t, publisherOptions(mallory))
	s := openTrust(t, t.TempDir(), TrustOptions{Now: c.now})
	if _, err := s.Add(a.Card.Object.Raw, AddOptions{Origins: []Origin{"https://example.com"}, Now: begin}); err != nil {
		t.Fatal(err)
	}
	// mallory's file sorts before alice's.
	put(t, s.dir, &Peer{Card: m.Card, Origins: []Origin{"https://example.com"}, AddedAt: begin})
	c.advance(lookEvery)
	if owner, _ := s.OwnerOf("https://example.com"); owner != alice || !errors.Is(s.Err(), ErrConflict) {
		t.Errorf("owner %s, Err %v", owner, s.Err())
	}
	if _, ok := s.Lookup(mallory); ok {
		t.Error("the newcomer is trusted")
	}
	// It is taken up once the conflict is gone, though its file stays the same.
	if err := s.Remove(alice); err != nil {
		t.Fatal(err)
	}
	if owner, _ := s.OwnerOf("https://example.com"); owner != mallory || s.Err() != nil {
		t.Errorf("owner %s, Err %v", owner, s.Err())
	}
}

func TestUnreadableFolderKeepsTheTrust(t *testing.T) {
	c := newClock()
	a := create(t, publisherOptions(alice))
	s := trusting(t, c, a)
	if err := os.Rename(s.dir, s.dir+".away"); err != nil {
		t.Fatal(err)
	}
	c.advance(lookEvery)
	if _, ok := s.Lookup(alice); !ok || !errors.Is(s.Err(), fs.ErrNotExist) {
		t.Errorf("found %v, Err %v", ok, s.Err())
	}
	if err := os.Rename(s.dir+".away", s.dir); err != nil {
		t.Fatal(err)
	}
	c.advance(lookEvery)
	if err := s.Err(); err != nil {
		t.Errorf("Err = %v", err)
	}
}

// TestStoreFollowsItsFolder edits the folder at random and compares the store
// with one that is opened anew, whenever that opens.
func TestStoreFollowsItsFolder(t *testing.T) {
	var peers []*Local
	for _, name := range []envelope.Name{alice, mallory, "spiffe://example.com/c"} {
		peers = append(peers, create(t, publisherOptions(name)))
	}
	origins := []Origin{"https://a.example", "https://b.example"}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "trust")
		if err != nil {
			rt.Fatal(err)
		}
		c := newClock()
		s, err := OpenTrust(dir, TrustOptions{Now: c.now})
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 12).Draw(rt, "edits") {
			l := rapid.SampledFrom(peers).Draw(rt, "identity")
			path := filepath.Join(dir, fileName(l.Name()))
			switch rapid.IntRange(0, 3).Draw(rt, "edit") {
			case 0:
				os.Remove(path)
			case 1:
				os.WriteFile(path, []byte("{}"), 0o600)
			default:
				o := rapid.SliceOfNDistinct(rapid.SampledFrom(origins), 0, 2, rapid.ID[Origin]).Draw(rt, "origins")
				put(t, dir, &Peer{Card: l.Card, Origins: o, AddedAt: begin})
			}
			if rapid.Bool().Draw(rt, "look") {
				c.advance(lookEvery)
				s.List()
			}
		}
		c.advance(lookEvery)
		got := s.List()
		anew, err := OpenTrust(dir, TrustOptions{Now: c.now})
		if (err == nil) != (s.Err() == nil) {
			rt.Fatalf("opened anew: %v; Err = %v", err, s.Err())
		}
		if err == nil && !slices.EqualFunc(got, anew.List(), (*Peer).equal) {
			rt.Fatalf("List = %v, opened anew %v", got, anew.List())
		}
		owners := make(map[Origin]envelope.Name)
		for _, p := range got {
			for _, o := range p.Origins {
				if owners[o] != "" {
					rt.Fatalf("%s belongs to %s and %s", o, owners[o], p.Card.Identity)
				}
				owners[o] = p.Card.Identity
			}
		}
	})
}
