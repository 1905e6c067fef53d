package follow

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// format is the version of a state file.
const format = "uzpif-oi-follow/1"

// maxState bounds a state file, in octets: two notes and a few hundred hashes.
const maxState = 1 << 20

// ErrState: a state file that is damaged, or of another log.
var ErrState = errors.New("state cannot be used")

// A state is what is remembered of one log.
type state struct {
	Format string `json:"format"`
	Origin string `json:"origin"`
	VKey   string `json:"vkey"`
	URL    string `json:"url"` // where it was read last

	// Note is the newest note of which every entry was verified, empty before
	// there is one. Seen is the newest one that was shown to go on from Note;
	// what comes next is held against it.
	Note string `json:"note"`
	Seen string `json:"seen"`

	// Verified counts the entries that were verified, and Edge is the right edge
	// of the tree over them. It lies between the sizes of Note and Seen.
	Verified uint64          `json:"verified"`
	Edge     []envelope.Hash `json:"edge"`
	LastTime envelope.Time   `json:"last_time,omitzero"` // issued_at of the last of them

	Begun     envelope.Time `json:"begun"`               // when following began
	Succeeded envelope.Time `json:"succeeded,omitzero"`  // the last round that found all well
	Issued    envelope.Time `json:"issued,omitzero"`     // of the newest checkpoint
	Signed    envelope.Time `json:"signed,omitzero"`     // of the newest one that covers just what is verified
	Witnessed envelope.Time `json:"witnessed,omitzero"`  // when the quorum was last met
	AheadAt   envelope.Time `json:"ahead_at,omitzero"`   // since when AheadSize is owed
	AheadSize uint64        `json:"ahead_size,omitzero"` // shown to others, and not published here

	// Continues is the end of the log before, as every checkpoint repeats it;
	// Joined: it was held against the state of that log.
	Continues *translog.Continues `json:"continues,omitempty"`
	Joined    bool                `json:"joined,omitzero"`

	note, seen translog.Tree
	edge       edge
}

// statePath is where the state of the log with that origin lies.
func statePath(dir, origin string) string {
	h := envelope.TaggedHash("uzpif-oi/follow/v1", []byte(origin))
	return filepath.Join(dir, "logs", hex.EncodeToString(h[:16])+".state")
}

// encode writes the state in one line, and its hash in the next.
func (s *state) encode() ([]byte, error) {
	s.Verified, s.Edge = s.edge.size(), s.edge.hashes()
	line, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(line, "\n%s\n", sum(line)), nil
}

func sum(line []byte) envelope.Hash { return envelope.TaggedHash("uzpif-oi/follow/v1", line) }

// parseState accepts exactly what encode writes. Errors: ErrState.
func parseState(raw []byte) (*state, error) {
	line, rest, _ := bytes.Cut(raw, []byte("\n"))
	s := new(state)
	if string(rest) != sum(line).String()+"\n" {
		return nil, fmt.Errorf("%w: it was changed or cut off: the hash in its last line is another", ErrState)
	}
	if err := json.Unmarshal(line, s, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	if s.Format != format {
		return nil, fmt.Errorf("%w: it has the format %.40q, this program writes %s", ErrState, s.Format, format)
	}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
	}
	again, err := s.encode()
	if err != nil || !bytes.Equal(again, raw) {
		return nil, fmt.Errorf("%w: it has another form than this program writes", ErrState)
	}
	return s, nil
}

// open verifies the notes, and that all parts are of one tree.
func (s *state) open() error {
	var err error
	if s.edge, err = edgeOf(s.Verified, s.Edge); err != nil {
		return err
	}
	root, err := s.edge.root()
	if err != nil {
		return err
	}
	if s.Seen != "" {
		if s.seen, err = translog.OpenNote([]byte(s.Seen), s.VKey); err != nil {
			return err
		}
	}
	if s.Note != "" {
		if s.note, err = translog.OpenNote([]byte(s.Note), s.VKey); err != nil {
			return err
		}
	}
	at := translog.Tree{Origin: s.Origin, Size: s.Verified, Root: root}
	switch {
	case s.Note != "" && s.note.Origin != s.Origin, s.Seen != "" && s.seen.Origin != s.Origin:
		return errors.New("its notes are of another log")
	case s.note.Size > s.Verified || s.Verified > s.seen.Size:
		return fmt.Errorf("%d entries are verified, between notes of %d and %d", s.Verified, s.note.Size, s.seen.Size)
	case s.Note != "" && s.note.Size == s.Verified && s.note != at, s.Seen != "" && s.seen.Size == s.Verified && s.seen != at:
		return errors.New("its notes and its edge are of different trees")
	}
	return nil
}

// readState reads the state of a log; nil if there is none. Errors: ErrState.
func readState(dir, origin string) (*state, error) {
	path := statePath(dir, origin)
	raw, err := readFile(path, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := parseState(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w. Put a copy of it back, or remove it to begin anew: what the log showed before is forgotten then", path, err)
	}
	if s.Origin != origin {
		return nil, fmt.Errorf("%s: %w: it is of the log %s, not of %s", path, ErrState, s.Origin, origin)
	}
	return s, nil
}
