package follow

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

func TestAnHonestLogIsFollowed(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	var visited []uint64
	total := uint64(0)
	for i, n := range []int{0, 1, 255, 1, 300, 0, 2} {
		l.grow(n, nil)
		l.pass(time.Minute)
		total += uint64(n)
		r := l.follow(dir, func(_ *Options, log *Log) {
			log.Visit = func(index uint64, o *envelope.Object, e *translog.Entry) {
				if o.Sequence != index || e.LogOrigin != l.stage.Origin() {
					t.Errorf("entry %d is visited as %d of %s", o.Sequence, index, e.LogOrigin)
				}
				visited = append(visited, index)
			}
		})
		if !r.OK() || r.TreeSize != total || r.Verified != total || r.Checked != uint64(n) {
			t.Fatalf("round %d: %+v, want %d of %d entries", i, r, n, total)
		}
	}
	for i, index := range visited {
		if index != uint64(i) {
			t.Fatalf("visit %d is of entry %d", i, index)
		}
	}
	if len(visited) != int(total) {
		t.Errorf("%d entries visited, want %d", len(visited), total)
	}
}

// TestADishonestLogIsFoundOut follows a log of 260 honest entries, and then a lie.
func TestADishonestLogIsFoundOut(t *testing.T) {
	spoiled := func(change func(*liar, *draft)) func(*liar) {
		return func(l *liar) { l.grow(3, func(d *draft) { change(l, d) }) }
	}
	replace := func(path string) func(*liar) {
		return func(l *liar) {
			l.grow(300, nil)
			l.set(func() {
				l.answer = func(w http.ResponseWriter, r *http.Request, body []byte) bool {
					if !strings.HasPrefix(r.URL.Path, path) || len(body) == 0 {
						return false
					}
					body[len(body)/2] ^= 1
					w.Write(body)
					return true
				}
			})
		}
	}
	for _, tt := range []struct {
		name string
		lie  func(*liar)
		want Kind
		file string // beside the notes
	}{
		{"another root at the same size", func(l *liar) { l.rewrite(100) }, Fork, ""},
		{"another past under a larger tree", func(l *liar) { l.rewrite(100); l.grow(5, nil) }, Inconsistent, "proof.json"},
		{"fewer entries than before", func(l *liar) { l.set(func() { l.size = 200 }) }, Rollback, ""},
		{"no entries any more", func(l *liar) { l.set(func() { l.size = 0 }) }, Rollback, ""},
		{"a proof for other sizes", func(l *liar) {
			l.grow(5, nil)
			l.set(func() { l.proof = func(p *translog.ConsistencyProof) { p.From-- } })
		}, Inconsistent, ""},
		{"a proof with one hash less", func(l *liar) {
			l.grow(5, nil)
			l.set(func() { l.proof = func(p *translog.ConsistencyProof) { p.Hashes = p.Hashes[1:] } })
		}, Inconsistent, "proof.json"},
		{"no proof at all", func(l *liar) {
			l.grow(5, nil)
			l.set(func() { l.answer = absent("/proof/consistency") })
		}, Inconsistent, ""},
		{"a signed checkpoint with another root than the note", func(l *liar) {
			l.set(func() { l.artefact = func(_ *envelope.Header, c *translog.Checkpoint) { c.Root[0] ^= 1 } })
		}, Fork, "checkpoint.json"},
		{"entries that are changed under the root", replace("/tile/entries/"), Withheld, ""},
		{"a tile that is changed", replace("/tile/0/"), Withheld, ""},
		{"entries that are kept back", func(l *liar) { l.grow(5, nil); l.set(func() { l.answer = absent("/tile/entries/") }) }, Withheld, ""},
		{"a redirect instead of entries", func(l *liar) {
			l.grow(5, nil)
			l.set(func() {
				l.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
					if strings.HasPrefix(r.URL.Path, "/tile/entries") {
						http.Redirect(w, r, "/elsewhere", http.StatusFound)
						return true
					}
					return false
				}
			})
		}, Withheld, ""},
		{"an entry by another key", spoiled(func(l *liar, d *draft) { d.signer = l.stage.Publisher.Envelope }), BadEntry, "entry.json"},
		{"an entry with another index", spoiled(func(_ *liar, d *draft) { d.header.Sequence++ }), BadEntry, "proof.json"},
		{"an entry of another log", spoiled(func(_ *liar, d *draft) { d.body.LogOrigin = "log.search.example/0" }), BadEntry, "entry.json"},
		{"an entry that is older than the one before it", spoiled(func(_ *liar, d *draft) { d.header.IssuedAt = d.header.IssuedAt.Add(-time.Second) }), BadEntry, "entry.json"},
		{"octets that are no entry", func(l *liar) {
			l.set(func() { l.add([]byte("{}")); l.size++ })
		}, BadEntry, "entry.json"},
		{"an entry that is signed and not canonical", func(l *liar) {
			l.set(func() { l.add(append(l.sign(l.size, nil), ' ')); l.size++ })
		}, BadEntry, "entry.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, dir := newLiar(t, 1), t.TempDir()
			l.grow(260, nil)
			if r := l.follow(dir, nil); !r.OK() {
				t.Fatalf("%+v", r)
			}
			before := readOwn(t, l, dir)
			l.pass(time.Minute)
			tt.lie(l)
			r := l.follow(dir, nil)
			wantRules(t, r, tt.want)
			checkAlert(t, l, dir, r.Violations[0], before, tt.file)
			after := readOwn(t, l, dir)
			if after.note != before.note || after.Succeeded != before.Succeeded {
				t.Errorf("the state moved from %d entries to %d", before.note.Size, after.note.Size)
			}
			// The alert stays, and nothing is asked, until it is removed.
			asked := l.asked
			wantRules(t, l.follow(dir, nil), tt.want)
			if l.asked != asked {
				t.Errorf("%d requests while the alert stands", l.asked-asked)
			}
			check(t, os.RemoveAll(filepath.Join(dir, "alerts", r.Violations[0].Folder)))
			wantRules(t, l.follow(dir, nil), tt.want)
		})
	}
}

// absent makes a log not have what begins with path.
func absent(path string) func(http.ResponseWriter, *http.Request, []byte) bool {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		if strings.HasPrefix(r.URL.Path, path) {
			http.NotFound(w, r)
			return true
		}
		return false
	}
}

func readOwn(t testing.TB, l *liar, dir string) *state {
	t.Helper()
	s, err := readState(dir, l.stage.Origin())
	check(t, err)
	return s
}

// checkAlert opens the notes of an alert: the old one is what was verified, and
// the log signed both.
func checkAlert(t *testing.T, l *liar, dir string, v Violation, before *state, file string) {
	t.Helper()
	old, err := translog.OpenNote(alertFile(t, dir, v, "old.note"), l.card().Log.VKey)
	check(t, err)
	if old != before.note {
		t.Errorf("old.note has %d entries, want %d", old.Size, before.note.Size)
	}
	_, err = translog.OpenNote(alertFile(t, dir, v, "new.note"), l.card().Log.VKey)
	check(t, err)
	if readme := alertFile(t, dir, v, "README"); !bytes.Contains(readme, []byte(v.Detail)) || !bytes.Contains(readme, []byte(v.Rule.meaning())) {
		t.Errorf("README: %s", readme)
	}
	if file != "" && len(alertFile(t, dir, v, file)) == 0 {
		t.Errorf("%s is empty", file)
	}
}

// TestHostileAnswersEndARound shows that an answer which proves nothing raises no
// alert, moves nothing, and takes no longer than it may.
func TestHostileAnswersEndARound(t *testing.T) {
	elsewhere := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(elsewhere.Close)
	for _, tt := range []struct {
		name string
		path string
		lie  http.HandlerFunc
		want Reason
	}{
		{"a note that comes by drops", "/checkpoint", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				fmt.Fprint(w, "l")
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		}, Unavailable},
		{"a note without end", "/checkpoint", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, Malformed},
		{"a redirect", "/checkpoint", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/checkpoint", http.StatusFound)
		}, Malformed},
		{"a page for people", "/checkpoint", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, BadNote},
		{"nothing there", "/checkpoint", http.NotFound, Absent},
		{"too busy", "/checkpoint", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, Unavailable},
		{"a signed checkpoint without end", "/signed-checkpoint.json", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, Malformed},
		{"a signed checkpoint that is none", "/signed-checkpoint.json", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") }, Malformed},
		{"an entry bundle that comes by drops", "/tile/entries", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				w.Write([]byte{0})
				w.(http.Flusher).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		}, Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, dir := newLiar(t, 1), t.TempDir()
			l.grow(10, nil)
			if r := l.follow(dir, nil); !r.OK() {
				t.Fatalf("%+v", r)
			}
			l.grow(10, nil)
			l.set(func() {
				l.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
					if !strings.HasPrefix(r.URL.Path, tt.path) {
						return false
					}
					tt.lie(w, r)
					return true
				}
			})
			r := l.follow(dir, nil)
			wantRules(t, r)
			if r.Reason != tt.want || r.Verified != 10 {
				t.Errorf("reason %q, %d entries, %v; want %q, 10", r.Reason, r.Verified, r.Err, tt.want)
			}
			l.set(func() { l.answer = nil })
			if r := l.follow(dir, nil); !r.OK() || r.Verified != 20 {
				t.Errorf("afterwards: %+v", r)
			}
		})
	}
}

// TestACachedAnswerIsNoAlert has an old note served once, as a cache does.
func TestACachedAnswerIsNoAlert(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	l.grow(10, nil)
	old := l.signedNote()
	l.grow(10, nil)
	if r := l.follow(dir, nil); !r.OK() {
		t.Fatalf("%+v", r)
	}
	left := 2
	l.set(func() {
		l.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if left--; r.URL.Path != "/checkpoint" || left < 0 {
				return false
			}
			w.Write(old)
			return true
		}
	})
	if r := l.follow(dir, nil); !r.OK() || r.TreeSize != 20 {
		t.Errorf("%+v", r)
	}
}

func TestALogThatPublishesMeanwhileIsFollowed(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	l.grow(10, nil)
	grown := false
	l.set(func() {
		l.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			if r.URL.Path == "/signed-checkpoint.json" && !grown {
				grown = true
				l.grow(3, nil)
				l.set(func() { w.Write(l.signedCheckpoint()) })
				return true
			}
			return false
		}
	})
	if r := l.follow(dir, nil); !r.OK() || r.TreeSize != 13 || r.Verified != 13 {
		t.Errorf("%+v", r)
	}
}

func TestANewLogContinuesTheOldOne(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(stage.Tree, *translog.Continues)
		want []Kind
	}{
		{"at the size that was seen", func(tree stage.Tree, c *translog.Continues) {}, nil},
		{"later than what was seen, with a proof", func(tree stage.Tree, c *translog.Continues) {
			c.Size, c.Root = 15, tree.Root(15)
		}, nil},
		{"with another root", func(_ stage.Tree, c *translog.Continues) { c.Root[0] ^= 1 }, []Kind{Discontinued}},
		{"with fewer entries than were seen", func(tree stage.Tree, c *translog.Continues) { c.Size, c.Root = 9, tree.Root(9) }, []Kind{Discontinued}},
		{"later than what was seen, with another past", func(_ stage.Tree, c *translog.Continues) { c.Size, c.Root = 15, envelope.Hash{1} }, []Kind{Discontinued}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			old, next, dir := newLiar(t, 1), newLiar(t, 1), t.TempDir()
			next.stage.Indexer.Card = next.stage.OtherLog(t)
			old.grow(10, nil)
			if r := old.follow(dir, nil); !r.OK() {
				t.Fatalf("%+v", r)
			}
			c := translog.Continues{Origin: old.stage.Origin(), Size: 10, Root: old.leaves.Root(10)}
			old.grow(5, nil)
			tt.end(old.leaves, &c)
			next.continues = &c
			next.pass(time.Minute)
			r := next.follow(dir, nil)
			wantRules(t, r, tt.want...)
			if r.Err != nil {
				t.Error(r.Err)
			}
			if len(tt.want) == 0 {
				next.set(func() { next.continues = nil })
				wantRules(t, next.follow(dir, nil), Discontinued)
			}
		})
	}
}
