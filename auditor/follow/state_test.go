package follow

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestAChangedStateIsRefused(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	l.grow(7, nil)
	if r := l.follow(dir, nil); !r.OK() {
		t.Fatalf("%+v", r)
	}
	path := statePath(dir, l.stage.Origin())
	whole, err := os.ReadFile(path)
	check(t, err)
	refused := func(what string, raw []byte) {
		t.Helper()
		check(t, os.WriteFile(path, raw, 0o600))
		s, err := Open(l.options(dir), []Log{{URL: l.url, Card: l.card()}})
		if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: Open = %v", what, err)
		}
		if err == nil {
			check(t, s.Close())
		}
	}
	for i := 0; i < len(whole); i += 11 {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		refused("one bit of an octet", changed)
	}
	beyond, err := parseState(whole)
	check(t, err)
	beyond.Note, beyond.Seen = "", ""
	raw, err := beyond.encode()
	check(t, err)
	refused("more entries than the log signed for", raw)
	refused("cut off", whole[:len(whole)-1])
	refused("empty", nil)
	refused("longer", append(bytes.Clone(whole), '\n'))
	line, _, _ := bytes.Cut(whole, []byte("\n"))
	for old, next := range map[string]string{
		`"verified":7`:                `"verified":6`,
		`"edge":["sha256:`:            `"edge":["sha256:` + strings.Repeat("0", 64) + `","sha256:`,
		`"format":"uzpif-oi-follow/1`: `"format":"uzpif-oi-follow/2`,
		`{"format"`:                   `{"more":1,"format"`,
		`"begun":"`:                   `"begun": "`,
		`"seen":"`:                    `"seen":"x`,
	} {
		other := bytes.Replace(line, []byte(old), []byte(next), 1)
		refused(next+", with the hash that goes with it", append(bytes.Clone(other), "\n"+sum(other).String()+"\n"...))
	}
}

func TestAStateOfAnotherKeyIsRefused(t *testing.T) {
	l, other, dir := newLiar(t, 1), newLiar(t, 2), t.TempDir()
	l.grow(3, nil)
	if r := l.follow(dir, nil); !r.OK() {
		t.Fatalf("%+v", r)
	}
	_, err := Open(other.options(dir), []Log{{URL: other.url, Card: other.card()}})
	if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "a log never changes its key") {
		t.Errorf("Open = %v", err)
	}
	// A file that was put in the place of another is of another log.
	card := l.stage.OtherLog(t)
	check(t, os.Rename(statePath(dir, l.stage.Origin()), statePath(dir, card.Log.Origin)))
	_, err = Open(l.options(dir), []Log{{URL: l.url, Card: card}})
	if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), "it is of the log") {
		t.Errorf("Open = %v", err)
	}
}

func TestOneProcessFollowsInAFolder(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	s, err := Open(l.options(dir), []Log{{URL: l.url, Card: l.card()}})
	check(t, err)
	if _, err := Open(l.options(dir), []Log{{URL: l.url, Card: l.card()}}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second Open = %v", err)
	}
	check(t, s.Close())
	s, err = Open(l.options(dir), []Log{{URL: l.url, Card: l.card()}})
	check(t, err)
	check(t, s.Close())
}

func TestWhatCannotBeFollowedIsRefused(t *testing.T) {
	l := newLiar(t, 1)
	log := Log{URL: l.url, Card: l.card()}
	for _, tt := range []struct {
		name string
		logs []Log
	}{
		{"no log", nil},
		{"one log twice", []Log{log, log}},
		{"a publisher's card", []Log{{URL: l.url, Card: l.stage.Publisher.Card}}},
		{"no card", []Log{{URL: l.url}}},
		{"no URL", []Log{{URL: "log.example", Card: l.card()}}},
		{"a card without a log", []Log{{URL: l.url, Card: &identity.Card{}}}},
	} {
		if _, err := Open(l.options(t.TempDir()), tt.logs); err == nil {
			t.Errorf("%s is followed", tt.name)
		}
	}
}

// TestWhatWasShownIsRememberedFirst looks at the disk when the entries are asked
// for: a fork that comes while they are fetched is a fork after a crash, too.
func TestWhatWasShownIsRememberedFirst(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	l.grow(30, nil)
	if r := l.follow(dir, nil); !r.OK() {
		t.Fatalf("%+v", r)
	}
	l.grow(30, nil)
	l.set(func() {
		l.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if !strings.HasPrefix(r.URL.Path, "/tile/entries") {
				return false
			}
			s, err := readState(dir, l.stage.Origin())
			if err != nil || s.note.Size != 30 || s.seen.Size != 60 || s.Verified != 30 {
				t.Errorf("%+v, %v", s, err)
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
	})
	if r := l.follow(dir, nil); r.Reason != Unavailable {
		t.Errorf("%+v", r)
	}
	l.rewrite(45)
	l.set(func() { l.answer = nil })
	wantRules(t, l.follow(dir, nil), Fork)
}

var errCrash = errors.New("the process was killed")

// A mortal disk dies at one step, before it or just behind it, and does nothing
// more then.
type mortal struct {
	steps  int // until it dies
	behind bool
}

func (m *mortal) step(do func() error) error {
	m.steps--
	if m.steps < 0 && !(m.steps == -1 && m.behind) {
		return errCrash
	}
	if err := do(); err != nil || m.steps >= 0 {
		return err
	}
	return errCrash
}

func (m *mortal) Write(path string, b []byte) error {
	return m.step(func() error { return system{}.Write(path, b) })
}

func (m *mortal) Rename(from, to string) error {
	return m.step(func() error { return system{}.Rename(from, to) })
}

func (m *mortal) RemoveAll(path string) error {
	return m.step(func() error { return system{}.RemoveAll(path) })
}

// TestACrashAtEachStepLosesNothing kills the follower at each step that it takes
// on its disk: in its first round, when the log has grown, and when it has
// forked. Another process does each round again.
func TestACrashAtEachStepLosesNothing(t *testing.T) {
	crashes, l := 0, newLiar(t, 1)
	for steps, crashed := 0, true; crashed; steps++ {
		crashed = false
		for _, behind := range []bool{false, true} {
			d := &mortal{steps: steps, behind: behind}
			dir := t.TempDir()
			l.set(func() { l.entries, l.leaves, l.size = nil, nil, 0 })
			round := func(want ...Kind) {
				t.Helper()
				for range 2 {
					r := l.follow(dir, func(o *Options, _ *Log) { o.disk = d })
					if !errors.Is(r.Err, errCrash) {
						wantRules(t, r, want...)
						return
					}
					crashed = true
					crashes++
					d = &mortal{steps: 1 << 30}
					l.pass(time.Second) // the next one names an alert by another time
				}
				t.Fatalf("crash at step %d: it dies again", steps)
			}
			l.grow(6, nil)
			round()
			l.pass(time.Minute)
			l.grow(6, nil)
			round()
			l.rewrite(9)
			round(Fork)
			s := readOwn(t, l, dir)
			if s.Verified != 12 || s.note.Size != 12 || s.note == l.tree() {
				t.Fatalf("crash at step %d: %d entries are verified under a note of %d", steps, s.Verified, s.note.Size)
			}
			standing, err := readAlerts(dir, l.card().Log.VKey)
			check(t, err)
			for name, want := range map[string]translog.Tree{"old.note": s.note, "new.note": l.tree()} {
				raw, err := os.ReadFile(filepath.Join(dir, "alerts", standing[0].Folder, name))
				check(t, err)
				if got, err := translog.OpenNote(raw, s.VKey); err != nil || got != want {
					t.Errorf("crash at step %d: %s has %v, %v", steps, name, got, err)
				}
			}
			left, err := filepath.Glob(filepath.Join(dir, "alerts", ".*"))
			if err != nil || len(left) > 0 || len(standing) != 1 {
				t.Errorf("crash at step %d: %d alerts, %q is left", steps, len(standing), left)
			}
		}
	}
	if crashes < 16 {
		t.Errorf("only %d crashes", crashes)
	}
}

// TestALongFirstRoundGoesOn is cut off in the middle, and repeats no entry that
// was kept.
func TestALongFirstRoundGoesOn(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	l.grow(700, nil)
	l.set(func() {
		l.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if !strings.HasPrefix(r.URL.Path, "/tile/entries/002") {
				return false
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
	})
	r := l.follow(dir, nil)
	if r.Reason != Unavailable || r.Verified != 512 || r.TreeSize != 700 {
		t.Errorf("%+v", r)
	}
	l.set(func() { l.answer = nil })
	if r := l.follow(dir, nil); !r.OK() || r.Checked != 188 || r.Verified != 700 {
		t.Errorf("%+v", r)
	}
}

// TestTheTreeOverWhatWasVerifiedIsTheOneSigned has a state whose edge is of
// another history than its notes, as only another proof than ours would let
// through.
func TestTheTreeOverWhatWasVerifiedIsTheOneSigned(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	l.grow(10, nil)
	wantRules(t, l.follow(dir, nil))
	l.grow(20, nil)
	s := readOwn(t, l, dir)
	s.Seen = string(l.signedNote())
	for i := range byte(10) {
		check(t, s.edge.add([32]byte{i}))
	}
	raw, err := s.encode()
	check(t, err)
	check(t, system{}.Write(statePath(dir, l.stage.Origin()), raw))
	r := l.follow(dir, nil)
	wantRules(t, r, Inconsistent)
	if s := readOwn(t, l, dir); s.note.Size != 10 {
		t.Errorf("%d entries are taken for verified", s.note.Size)
	}
}

// TestAFullDiskIsNotFilledFurther: an alert that cannot be kept leaves nothing,
// is told as an error, and comes again.
func TestAFullDiskIsNotFilledFurther(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	l.grow(10, nil)
	wantRules(t, l.follow(dir, nil))
	l.rewrite(5)
	for range 3 {
		r := l.follow(dir, func(o *Options, _ *Log) { o.disk = full{} })
		wantRules(t, r)
		if r.Reason != Alerted || !errors.Is(r.Err, syscall.ENOSPC) {
			t.Errorf("%q, %v", r.Reason, r.Err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(dir, "alerts")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	wantRules(t, l.follow(dir, nil), Fork)
}

// full is a disk on which a folder can be made, and one file.
type full struct{ system }

func (full) Write(path string, b []byte) error {
	if filepath.Base(path) == "README" {
		return system{}.Write(path, b)
	}
	return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
}

// FuzzState: what parses is printed again as it was.
func FuzzState(f *testing.F) {
	l, dir := newLiar(f, 1), f.TempDir()
	l.grow(3, nil)
	l.follow(dir, nil)
	whole, err := os.ReadFile(statePath(dir, l.stage.Origin()))
	check(f, err)
	line, _, _ := bytes.Cut(whole, []byte("\n"))
	f.Add(line)
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		raw := append(bytes.Clone(line), "\n"+sum(line).String()+"\n"...)
		s, err := parseState(raw)
		if err != nil {
			return
		}
		again, err := s.encode()
		if err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%q is printed as %q, %v", raw, again, err)
		}
	})
}
