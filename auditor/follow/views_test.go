package follow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
)

// noteAt is the note of the first n leaves of a tree.
func (l *liar) noteAt(tree stage.Tree, n uint64) []byte {
	return l.stage.SignNote(l.t, tree.At(l.stage.Origin(), n))
}

func TestNotesOfOthersAreCompared(t *testing.T) {
	l := newLiar(t, 1)
	l.grow(30, nil)
	honest := l.leaves
	l.grow(10, nil)
	longer := l.leaves
	l.set(func() { l.entries, l.leaves, l.size = l.entries[:30], l.leaves[:30], 30 })
	fork := append(stage.Tree{}, honest...)
	fork[20] = [32]byte{1}
	other := newLiar(t, 2)
	other.stage.Indexer.Card = other.stage.OtherLog(t)
	in := func(notes map[string][]byte) []byte {
		members := map[string]any{"indexer": "spiffe://search.example/indexer", "deep": map[string]string{"note": "none"}}
		for name, n := range notes {
			members[name] = string(n)
		}
		b, err := json.Marshal(members)
		check(t, err)
		return b
	}
	for _, tt := range []struct {
		name string
		file []byte
		want NoteCount
		rule []Kind
	}{
		{"the same note", l.noteAt(honest, 30), NoteCount{Consistent: 1}, nil},
		{"an older note", l.noteAt(honest, 17), NoteCount{Consistent: 1}, nil},
		{"the note of the empty tree", l.noteAt(honest, 0), NoteCount{Consistent: 1}, nil},
		{"a note that is not published yet", l.noteAt(longer, 35), NoteCount{Ahead: 1}, nil},
		{"a note of another log", other.noteAt(nil, 0), NoteCount{}, nil},
		{"a note by another key", newLiar(t, 2).noteAt(honest, 17), NoteCount{Refused: 1}, nil},
		{"a note that was changed", bytes.Replace(l.noteAt(honest, 17), []byte("17"), []byte("18"), 1), NoteCount{Refused: 1}, nil},
		{"no note", []byte("hello"), NoteCount{Refused: 1}, nil},
		{"nothing", nil, NoteCount{Refused: 1}, nil},
		{"another root at this size", l.noteAt(fork, 30), NoteCount{}, []Kind{SplitView}},
		{"another root at a smaller size", l.noteAt(fork, 25), NoteCount{}, []Kind{SplitView}},
		{"a smaller size before the fork", l.noteAt(fork, 20), NoteCount{Consistent: 1}, nil},
		{"an evidence file", in(map[string][]byte{"note": l.noteAt(honest, 17)}), NoteCount{Consistent: 1}, nil},
		{"a publisher's alarm", in(map[string][]byte{"public_note": l.noteAt(honest, 17), "session_note": l.noteAt(honest, 3)}), NoteCount{Consistent: 2}, nil},
		{"a publisher's alarm with a fork", in(map[string][]byte{"public_note": l.noteAt(honest, 17), "session_note": l.noteAt(fork, 25)}), NoteCount{}, []Kind{SplitView}},
		{"another auditor's state", append(in(map[string][]byte{"note": l.noteAt(honest, 17), "seen": l.noteAt(honest, 20)}), "\nsha256:00\n"...), NoteCount{Consistent: 2}, nil},
		{"JSON without a note", []byte(`{"a":1}`), NoteCount{Refused: 1}, nil},
		{"JSON that ends too early", []byte(`{"note":"x"`), NoteCount{Refused: 1}, nil},
		{"JSON that is too deep", append(bytes.Repeat([]byte(`{"note":`), 10_000), '1'), NoteCount{Refused: 1}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, notes := t.TempDir(), t.TempDir()
			path := filepath.Join(notes, "file")
			check(t, os.WriteFile(path, tt.file, 0o600))
			for _, where := range []string{path, notes} {
				r := l.follow(dir, func(_ *Options, log *Log) { log.Notes = []string{where} })
				wantRules(t, r, tt.rule...)
				if len(tt.rule) == 0 && (r.Err != nil || r.Notes != tt.want || r.OK() != (tt.want.Refused == 0)) {
					t.Errorf("%s: %+v, %v; want %+v", where, r.Notes, r.Err, tt.want)
				}
				for _, v := range r.Violations {
					if !bytes.Contains(tt.file, alertFile(t, dir, v, "old.note")[:20]) {
						t.Error("old.note is not what the other one was shown")
					}
				}
			}
		})
	}
}

// TestWhatOthersSawIsPublishedInTime shows a note to somebody that the log does
// not publish.
func TestWhatOthersSawIsPublishedInTime(t *testing.T) {
	for _, publishes := range []bool{true, false} {
		l, dir := newLiar(t, 1), t.TempDir()
		l.grow(30, nil)
		path := filepath.Join(t.TempDir(), "note")
		l.set(func() {
			l.add(l.sign(30, nil))
			check(t, os.WriteFile(path, l.noteAt(l.leaves, 31), 0o600))
		})
		round := func(want ...Kind) {
			t.Helper()
			l.refresh()
			r := l.follow(dir, func(_ *Options, log *Log) { log.Notes = []string{path} })
			wantRules(t, r, want...)
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
		round()
		l.pass(time.Hour)
		round()
		l.pass(time.Hour + time.Second)
		if publishes {
			l.grow(1, nil)
			round()
			continue
		}
		round(SplitView)
	}
}

func TestTooManyNotesAreRefused(t *testing.T) {
	l, notes := newLiar(t, 1), t.TempDir()
	l.grow(1, nil)
	for i := range maxNotes + 1 {
		check(t, os.WriteFile(filepath.Join(notes, fmt.Sprint(i)), nil, 0o600))
	}
	r := l.follow(t.TempDir(), func(_ *Options, log *Log) { log.Notes = []string{notes} })
	if r.Reason != Local {
		t.Errorf("%+v", r)
	}
	large := filepath.Join(t.TempDir(), "large")
	check(t, os.WriteFile(large, make([]byte, maxNoteFile+1), 0o600))
	r = l.follow(t.TempDir(), func(_ *Options, log *Log) { log.Notes = []string{large} })
	if r.Reason != Local {
		t.Errorf("%+v", r)
	}
}

// FuzzNotesIn reads JSON by others.
func FuzzNotesIn(f *testing.F) {
	f.Add([]byte(`{"note":"a","x":{"note":"b"},"seen":"c"}`))
	f.Add([]byte(`{"note":["a"]}`))
	f.Add([]byte(`[{"note":"a"}]`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		var plain map[string]any
		err := json.Unmarshal(raw, &plain)
		for _, note := range notesIn(raw) {
			found := err != nil // another value behind the first, or one that json reads otherwise
			for _, name := range noteMembers {
				if s, ok := plain[name].(string); ok && s == string(note) {
					found = true
				}
			}
			if !found {
				t.Errorf("%q is no note of %q", note, raw)
			}
		}
	})
}
