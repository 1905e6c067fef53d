package identity

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// nextLog is the log in which an indexer of these tests goes on.
func nextLog(origin string) RotationOptions {
	return RotationOptions{
		Origin: origin, Now: begin.Add(time.Hour), Rand: new(dice),
		URL: func(string) string { return "https://search.example/next" },
	}
}

func TestARotatedCardReplacesTheOldOne(t *testing.T) {
	dir := t.TempDir()
	old, err := Create(dir, indexerOptions(bob))
	if err != nil {
		t.Fatal(err)
	}
	r, err := old.BeginRotation(dir, nextLog("search.example/log-2"))
	if err != nil {
		t.Fatal(err)
	}
	same, err := Load(dir, begin)
	if err != nil || same.Card.Object.ID != old.Card.Object.ID {
		t.Errorf("the identity has changed before Install: %v", err)
	}
	if _, err := old.BeginRotation(dir, nextLog("search.example/log-3")); !errors.Is(err, ErrExists) {
		t.Errorf("a second rotation = %v", err)
	}
	if err := r.Install(); err != nil {
		t.Fatal(err)
	}
	l, err := Load(dir, begin.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	c := l.Card
	if c.Log.Origin != "search.example/log-2" || c.Log.URL != "https://search.example/next" || c.Previous != old.Card.Object.ID || c.Endpoint != old.Card.Endpoint {
		t.Errorf("the new card is %+v", c)
	}
	if l.LogKey.Equal(old.LogKey) || !l.LogKey.Equal(r.LogKey) {
		t.Error("the log key is not the new one")
	}
	if l.Epoch(envelope.UseEnvelope) != old.Epoch(envelope.UseEnvelope) || l.Certificate().Leaf.SerialNumber.Cmp(old.Certificate().Leaf.SerialNumber) != 0 {
		t.Error("a rotation of the log has changed other keys")
	}
	if newer, err := c.Supersede(old.Card); !newer || err != nil {
		t.Errorf("Supersede = %v, %v", newer, err)
	}
	if past, err := l.PastCards(); err != nil || len(past) != 1 || past[0].Object.ID != old.Card.Object.ID {
		t.Errorf("past cards: %d, %v", len(past), err)
	}
	if again, err := PendingRotation(dir); err != nil || again != nil {
		t.Errorf("PendingRotation = %v, %v", again, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, tempPrefix+"*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// TestARotationIsInstalledAfterAnyCrash stops between the steps of Install.
func TestARotationIsInstalledAfterAnyCrash(t *testing.T) {
	move := func(dir, from, to string) {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	for name, before := range map[string]func(dir string){
		"nothing was moved": func(string) {},
		"the key was moved": func(dir string) { move(dir, "rotation/log.key", "keys/log.key") },
		"key and card are moved": func(dir string) {
			move(dir, "rotation/log.key", "keys/log.key")
			move(dir, "rotation/identity.json", "identity.json")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			old, err := Create(dir, indexerOptions(bob))
			if err != nil {
				t.Fatal(err)
			}
			begun, err := old.BeginRotation(dir, nextLog("search.example/log-2"))
			if err != nil {
				t.Fatal(err)
			}
			if name == "key and card are moved" { // as Install does before it moves anything
				if err := os.Mkdir(filepath.Join(dir, cardsFolder), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(pastCardFile(dir, old.Card.Object.ID), old.Card.Object.Raw, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			before(dir)
			r, err := PendingRotation(dir)
			if err != nil || r == nil {
				t.Fatalf("PendingRotation = %v, %v", r, err)
			}
			if !r.LogKey.Equal(begun.LogKey) || r.Card.Object.ID != begun.Card.Object.ID {
				t.Error("another rotation than the one that was begun")
			}
			if err := r.Install(); err != nil {
				t.Fatal(err)
			}
			l, err := Load(dir, begin.Add(time.Hour))
			if err != nil || l.Card.Object.ID != begun.Card.Object.ID {
				t.Errorf("Load = %v, %v", l, err)
			}
			if past, err := l.PastCards(); err != nil || len(past) != 1 {
				t.Errorf("past cards: %d, %v", len(past), err)
			}
		})
	}
}

func TestARotationThatIsAbandonedLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	l, err := Create(dir, indexerOptions(bob))
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.BeginRotation(dir, nextLog("search.example/log-2"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Abandon(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, rotationFolder)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder: %v", err)
	}
}

func TestRotationsThatAreNoneAreRefused(t *testing.T) {
	dir := t.TempDir()
	l, err := Create(dir, indexerOptions(bob))
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]RotationOptions{
		"the same origin":        nextLog(l.Card.Log.Origin),
		"no origin":              nextLog(""),
		"an origin with a space": nextLog("search.example/log 2"),
		"no address":             {Origin: "search.example/log-2", Now: begin, URL: func(string) string { return "" }},
	} {
		if _, err := l.BeginRotation(dir, o); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	p := create(t, publisherOptions(alice))
	if _, err := p.BeginRotation(t.TempDir(), nextLog("search.example/log-2")); err == nil {
		t.Error("a publisher rotates a log")
	}
	if r, err := PendingRotation(dir); r != nil || err != nil {
		t.Errorf("left behind: %v, %v", r, err)
	}
}

// TestPastLogsAreKnownAfterTheCardWasReplaced goes through three rotations, with
// a store that is opened anew after each.
func TestPastLogsAreKnownAfterTheCardWasReplaced(t *testing.T) {
	dir, trust := t.TempDir(), t.TempDir()
	l, err := Create(dir, indexerOptions(bob))
	if err != nil {
		t.Fatal(err)
	}
	s := openTrust(t, trust, TrustOptions{})
	add(t, s, l)
	logs := map[string]string{l.Card.Log.Origin: l.Card.Log.VKey}
	random := new(dice)
	for _, origin := range []string{"search.example/log-2", "search.example/log-3", "search.example/log-4"} {
		o := nextLog(origin)
		o.Rand = random
		r, err := l.BeginRotation(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Install(); err != nil {
			t.Fatal(err)
		}
		if l, err = Load(dir, o.Now); err != nil {
			t.Fatal(err)
		}
		logs[origin] = l.Card.Log.VKey
		for range 2 { // the same card again changes nothing
			if _, err := s.Add(l.Card.Object.Raw, AddOptions{Now: o.Now}); err != nil {
				t.Fatal(err)
			}
		}
		s = openTrust(t, trust, TrustOptions{})
		p, ok := s.Lookup(bob)
		if !ok || len(p.Past) != len(logs)-1 {
			t.Fatalf("%d past cards, want %d", len(p.Past), len(logs)-1)
		}
		for origin, vkey := range logs {
			if log, ok := p.LogOf(origin); !ok || log.VKey != vkey {
				t.Errorf("log %s has key %+v, want %s", origin, log, vkey)
			}
		}
		if _, ok := p.LogOf("search.example/other"); ok {
			t.Error("a log of nobody is known")
		}
		// The keys of a replaced card sign nothing and open no connection.
		for _, c := range p.Past {
			id := c.Keys[key(t, c, envelope.UseLog)].PublicKey.ID()
			if _, ok := s.LookupKey(id); ok {
				t.Errorf("the log key of %s still counts", c.Log.Origin)
			}
		}
	}
	if past, err := l.PastCards(); err != nil || len(past) != 3 {
		t.Errorf("past cards: %d, %v", len(past), err)
	}
}

func TestAPastCardThatNoneHasReplacedIsRefused(t *testing.T) {
	dir := t.TempDir()
	l, err := Create(dir, indexerOptions(bob))
	if err != nil {
		t.Fatal(err)
	}
	o := indexerOptions("spiffe://search.example/other")
	o.Rand = &dice{n: 500}
	other := create(t, o)
	publisher := create(t, publisherOptions(alice))
	r, err := l.BeginRotation(dir, nextLog("search.example/log-2"))
	if err != nil {
		t.Fatal(err)
	}
	for name, past := range map[string][]*Card{
		"the card itself":          {r.Card},
		"a card of another":        {other.Card},
		"a card without a log":     {publisher.Card},
		"the same one twice":       {l.Card, l.Card},
		"more than are ever there": make([]*Card, maxPast+1),
	} {
		for i := range past {
			if past[i] == nil {
				past[i] = l.Card
			}
		}
		raw, err := encodePeer(&Peer{Card: r.Card, AddedAt: begin, Past: past})
		if err != nil {
			t.Fatal(err)
		}
		if p, err := decodePeer(raw); err == nil {
			t.Errorf("%s: %+v", name, p.Past)
		}
	}
	raw, err := encodePeer(&Peer{Card: r.Card, AddedAt: begin, Past: []*Card{l.Card}})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := decodePeer(raw); err != nil || len(p.Past) != 1 {
		t.Errorf("an honest file: %v", err)
	}
}
