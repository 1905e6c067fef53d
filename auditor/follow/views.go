package follow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Bounds of the notes of others.
const (
	maxNotes    = 1024    // files that are looked at in a round
	maxNoteFile = 2 << 20 // octets of one
	maxDepth    = 16      // of a JSON file
	maxViews    = 1 << 14 // trees that are remembered as consistent
)

// noteMembers are the members of JSON files that hold notes: of a state of this
// package, of an alarm of a publisher, and of an evidence file.
var noteMembers = [...]string{"note", "seen", "session_note", "public_note"}

// A NoteCount says what became of the notes of others in a round.
type NoteCount struct {
	Consistent int `json:"consistent"` // part of the log that is shown here
	Ahead      int `json:"ahead"`      // of more entries than are published
	Refused    int `json:"refused"`    // no note by the key of this log
}

// A view is what somebody else was shown.
type view struct {
	path string
	tree translog.Tree
	note []byte
}

// compareViews has the log prove that what others were shown is part of what it
// shows here. What is of another log, or not signed by this one's key, says
// nothing about it.
func (f *follower) compareViews(ctx context.Context, r *Report) error {
	r.Notes = NoteCount{}
	files, err := noteFiles(f.log.Notes)
	if err != nil {
		return err
	}
	var ahead *view
	for _, file := range files {
		views, refused, err := f.readViews(file)
		if err != nil {
			return err
		}
		r.Notes.Refused += refused
		for i := range views {
			v := &views[i]
			if v.tree.Size > f.state.seen.Size {
				if r.Notes.Ahead++; ahead == nil || v.tree.Size > ahead.tree.Size {
					ahead = v
				}
				continue
			}
			if err := f.compareView(ctx, v); err != nil {
				return err
			}
			r.Notes.Consistent++
		}
	}
	return f.owe(ahead)
}

// noteFiles are the files themselves, and what lies in the folders, in order.
func noteFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
		} else {
			names, err := listFolder(path)
			if err != nil {
				return nil, err
			}
			files = append(files, names...)
		}
		if len(files) > maxNotes {
			return nil, fmt.Errorf("more than %d files of notes; name fewer, the newest of each party are enough", maxNotes)
		}
	}
	return files, nil
}

// listFolder lists the regular files of a folder, one more than maxNotes at most,
// but for what cannot be notes in the state of an auditor.
func listFolder(path string) ([]string, error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	entries, err := d.ReadDir(maxNotes + 1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	var files []string
	for _, e := range entries {
		if e.Type().IsRegular() && !strings.HasPrefix(e.Name(), ".") && !strings.HasSuffix(e.Name(), rulesSuffix) {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	slices.Sort(files)
	return files, errors.Join(err, d.Close())
}

// readViews reads the notes of this log in a file: one note as it was signed, or
// a JSON object with notes in noteMembers. Notes that name another log are passed
// over; refused counts what should be of this one and is not signed by it.
func (f *follower) readViews(path string) (views []view, refused int, err error) {
	raw, err := readFile(path, maxNoteFile)
	if err != nil {
		return nil, 0, err
	}
	notes := [][]byte{raw}
	if bytes.HasPrefix(raw, []byte("{")) {
		notes = notesIn(raw)
	}
	if len(notes) == 0 {
		refused = 1
	}
	for _, note := range notes {
		tree, err := translog.OpenNote(note, f.vkey)
		if origin, _, _ := strings.Cut(string(note), "\n"); err != nil && bytes.Contains(note, []byte("\n\n")) && origin != f.origin() {
			continue
		}
		if err != nil {
			f.words.Warn("a note that is not of this log", "file", path, "error", clean(err.Error()))
			refused++
			continue
		}
		views = append(views, view{path, tree, note})
	}
	return views, refused, nil
}

// notesIn are the notes in the first JSON value of a file; none if it is of
// another form. An empty note is none: a state has one before its first round
// has ended.
func notesIn(raw []byte) [][]byte {
	d := jsontext.NewDecoder(bytes.NewReader(raw))
	var notes [][]byte
	name := ""
	for {
		token, err := d.ReadToken()
		if err != nil || d.StackDepth() > maxDepth {
			return nil
		}
		if d.StackDepth() == 0 {
			return notes
		}
		if d.StackDepth() > 1 || token.Kind() != '"' {
			continue
		}
		if _, n := d.StackIndex(1); n%2 == 1 {
			name = token.String()
		} else if note := token.String(); note != "" && slices.Contains(noteMembers[:], name) {
			notes = append(notes, []byte(note))
		}
	}
}

// compareView has the log prove that v is part of what it shows. What was proven
// is not asked for again: later trees go on from the one that it was proven in.
func (f *follower) compareView(ctx context.Context, v *view) error {
	if f.views[v.tree] {
		return nil
	}
	seen := f.state.seen
	path, err := f.consistency(ctx, v.tree, seen)
	if err != nil && !refused(err) {
		return err
	}
	if err != nil {
		a := f.alert(SplitView, v.tree.Size, "%s has a tree of %d entries under %x, which is not shown to be part of that of %d entries under %x: %v",
			v.path, v.tree.Size, v.tree.Root, seen.Size, seen.Root, err)
		a.files["old.note"], a.proven = v.note, v.tree.Size == seen.Size
		a.prove(v.tree.Size, seen.Size, path)
		return a
	}
	if len(f.views) >= maxViews {
		clear(f.views)
	}
	f.views[v.tree] = true
	return nil
}

// owe takes note that somebody was shown more than is published. A log that does
// not publish it in time shows two views as well.
func (f *follower) owe(ahead *view) error {
	s, now := f.state, f.o.Now()
	if s.seen.Size >= s.AheadSize {
		s.AheadSize, s.AheadAt = 0, envelope.Time{}
	}
	if ahead == nil {
		return nil
	}
	if s.AheadSize == 0 {
		s.AheadSize, s.AheadAt = ahead.tree.Size, envelope.At(now)
	}
	if now.Sub(s.AheadAt.Time) <= f.o.Stale {
		return nil
	}
	a := f.alert(SplitView, ahead.tree.Size, "%s has a tree of %d entries, and %d are published; %d were to be since %s",
		ahead.path, ahead.tree.Size, s.seen.Size, s.AheadSize, s.AheadAt)
	a.files["old.note"], a.proven = ahead.note, true
	return a
}
