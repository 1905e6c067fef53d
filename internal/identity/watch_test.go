package identity

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// A lookout is a Watch at work, over a trust whose clock stands still: it never
// looks of its own accord.
type lookout struct {
	t       *testing.T
	trust   *Trust
	local   *Local
	changes atomic.Int64
	lines   lines
}

// lines is a log that tests read.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func watch(t *testing.T, dir string, local *Local, blind bool) *lookout {
	t.Helper()
	before := goleak.IgnoreCurrent()
	c := newClock()
	x := &lookout{t: t, trust: openTrust(t, dir, TrustOptions{Now: c.now}), local: local}
	w := Watch{
		Trust: x.trust, Local: local, Now: c.now, Log: slog.New(slog.NewTextHandler(&x.lines, nil)),
		Changed: func() { x.changes.Add(1) }, blind: blind,
	}
	if !blind {
		w.every = time.Hour // what it sees it was told
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		goleak.VerifyNone(t, before)
	})
	return x
}

// within waits for what the watch is to bring about, far longer than it may take.
func (x *lookout) within(what string, holds func() bool) {
	x.t.Helper()
	for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			x.t.Fatalf("waited in vain: %s; the log says %s", what, x.lines.text.String())
		}
	}
}

func (x *lookout) trusts(name string) func() bool {
	return func() bool {
		for _, p := range x.trust.List() {
			if string(p.Card.Identity) == name {
				return true
			}
		}
		return false
	}
}

func not(holds func() bool) func() bool { return func() bool { return !holds() } }

func TestAWatchTakesUpWhatCommandsWrite(t *testing.T) {
	a := create(t, publisherOptions(alice))
	x := watch(t, t.TempDir(), create(t, indexerOptions(bob)), false)
	command := openTrust(t, x.trust.dir, TrustOptions{})
	add(t, command, a)
	x.within("an added identity", x.trusts(alice))
	if err := command.Remove(alice); err != nil {
		t.Fatal(err)
	}
	x.within("a removed identity", not(x.trusts(alice)))
	addAuthority(t, command, "example.com", newIssuer(t, "a", nil))
	authority := func() bool { return len(x.trust.Authorities()) == 1 }
	x.within("an added authority", authority)
	if err := command.RemoveAuthority("example.com"); err != nil {
		t.Fatal(err)
	}
	x.within("a removed authority", not(authority))
	x.within("each change to be told", func() bool { return x.changes.Load() >= 4 })
}

func TestAWatchFollowsSwapsAndEditors(t *testing.T) {
	a, m := create(t, publisherOptions(alice)), create(t, publisherOptions(mallory))
	file := func(l *Local) []byte {
		return mustRead(t, filepath.Join(trusting(t, newClock(), l).dir, fileName(l.Name())))
	}
	fill := func(locals ...*Local) func(dir string) {
		return func(dir string) {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			for _, l := range locals {
				if err := os.WriteFile(filepath.Join(dir, fileName(l.Name())), file(l), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	local := create(t, indexerOptions(bob))

	t.Run("a volume of Kubernetes", func(t *testing.T) {
		v := newVolume(t)
		v.swap(fill(a))
		x := watch(t, v.dir, local, false)
		x.within("the first volume", x.trusts(alice))
		v.swap(fill(m))
		x.within("the swapped volume", func() bool { return x.trusts(mallory)() && !x.trusts(alice)() })
		v.swap(fill(a, m))
		x.within("the volume swapped again", func() bool { return x.trusts(mallory)() && x.trusts(alice)() })
	})
	t.Run("a link to the whole folder", func(t *testing.T) {
		top := t.TempDir()
		for name, l := range map[string]*Local{"one": a, "two": m} {
			fill(l)(filepath.Join(top, name))
		}
		link := filepath.Join(top, "trust")
		swap := func(to string) {
			if err := os.Symlink(to, link+".new"); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(link+".new", link); err != nil {
				t.Fatal(err)
			}
		}
		swap("one")
		x := watch(t, link, local, false)
		swap("two")
		x.within("the other folder", func() bool { return x.trusts(mallory)() && !x.trusts(alice)() })
		fill(a)(filepath.Join(top, "two"))
		x.within("a file in the other folder", x.trusts(alice))
	})
	t.Run("an editor that writes in place, badly and then well", func(t *testing.T) {
		dir := t.TempDir()
		fill(a)(dir)
		x := watch(t, dir, local, false)
		path := filepath.Join(dir, fileName(alice))
		good := mustRead(t, path)
		if err := os.WriteFile(path, good[:100], 0o600); err != nil {
			t.Fatal(err)
		}
		x.within("an alarm", func() bool { return x.trust.Status().Problem != "" })
		if !x.trusts(alice)() {
			t.Error("a bad file took the old record away")
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
		x.within("the end of the alarm", func() bool { return x.trust.Status().Problem == "" })
	})
}

func TestAWatchLooksWhereNothingIsReported(t *testing.T) {
	t.Parallel()
	a := create(t, publisherOptions(alice))
	x := watch(t, t.TempDir(), create(t, indexerOptions(bob)), true)
	add(t, openTrust(t, x.trust.dir, TrustOptions{}), a)
	x.within("an added identity", x.trusts(alice))
}

func TestAWatchShowsTheCertificateThatIsSwappedIn(t *testing.T) {
	local := withoutTLS(t, publisherOptions(alice))
	i := newIssuer(t, "example", nil)
	v := newVolume(t)
	files := v.certificate(i.issue(alice, nil))
	if err := local.UseFiles(files, begin); err != nil {
		t.Fatal(err)
	}
	x := watch(t, t.TempDir(), local, false)
	for range 3 {
		next := i.issue(alice, nil)
		v.certificate(next)
		x.within("the next certificate", func() bool { return local.Certificate().Leaf.Equal(next.Leaf) })
	}
	shown := local.Certificate()
	v.certificate(i.issue(carol, nil))
	x.within("an alarm", func() bool { return local.Status(begin).Problem != "" })
	if local.Certificate() != shown {
		t.Error("a bad file took the certificate away")
	}
	v.certificate(i.issue(alice, nil))
	x.within("the end of the alarm", func() bool { return local.Status(begin).Problem == "" })
	x.within("each change to be told", func() bool { return x.changes.Load() >= 4 })
	if n := x.lines.count("level=ERROR"); n != 1 {
		t.Errorf("%d alarms, want 1", n)
	}
}

// TestAChangeThatSomebodyElseFoundIsToldAllTheSame looks on demand before the
// watch does.
func TestAChangeThatSomebodyElseFoundIsToldAllTheSame(t *testing.T) {
	c := newClock()
	trust, told := trusting(t, c), 0
	w := Watch{Trust: trust, Local: create(t, indexerOptions(bob)), Now: c.now, Log: slog.New(slog.DiscardHandler), Changed: func() { told++ }}
	seen := noticed{version: trust.Version()}
	w.look(&seen)
	add(t, openTrust(t, trust.dir, TrustOptions{Now: c.now}), create(t, publisherOptions(alice)))
	c.advance(lookEvery)
	if _, ok := trust.Lookup(alice); !ok {
		t.Fatal("the change is not found on demand")
	}
	w.look(&seen)
	w.look(&seen)
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
}
