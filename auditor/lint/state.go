package lint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/fsck"
)

// ErrState: what lies in the folder is no state of this log.
var ErrState = errors.New("no state of this log")

const (
	stateFile    = "lint.json"
	stateProfile = "uzpif-oi-lint/1"
	// maxState is about what a million grants need.
	maxState = 1 << 30
)

// A state is where a lint has come to: at the end of a full bundle, with what
// the entries before it say.
type state struct {
	Profile    string          `json:"profile"`
	Origin     string          `json:"log_origin"`
	VKey       string          `json:"vkey"`
	Indexer    envelope.Name   `json:"indexer"`
	TreeSize   uint64          `json:"tree_size"` // of the tree that was read
	Root       envelope.Hash   `json:"root"`
	Frontier   fsck.Frontier   `json:"frontier"`
	Checker    jsontext.Value  `json:"checker"`
	Pages      jsontext.Value  `json:"pages,omitempty"` // of a disclosure
	Disclosure envelope.Hash   `json:"disclosure,omitzero"`
	Record     jsontext.Value  `json:"record,omitempty"` // of a Recorder
	Last       *fsck.Published `json:"last,omitempty"`
	Violations []Violation     `json:"violations"`
	Unlisted   uint64          `json:"unlisted,omitzero"`
}

// readState reads the state of a log, nil if there is none.
func readState(dir, vkey string, indexer envelope.Name) (*state, error) {
	path := filepath.Join(dir, stateFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	raw, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxState {
		return nil, fmt.Errorf("%w: %s is over %d octets; remove it to begin anew", ErrState, path, maxState)
	}
	s := new(state)
	if err := json.Unmarshal(raw, s, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; remove it to begin anew", ErrState, path, err)
	}
	switch size := s.Frontier.Size(); {
	case s.Profile != stateProfile || !s.Frontier.Valid() || size > s.TreeSize || size%translog.TileWidth != 0:
		return nil, fmt.Errorf("%w: %s cannot be read; remove it to begin anew", ErrState, path)
	case s.VKey != vkey || s.Indexer != indexer:
		return nil, fmt.Errorf("%w: %s is of the log %.80q of %.80q; give each log a folder of its own", ErrState, path, s.Origin, string(s.Indexer))
	}
	return s, nil
}

// write puts the state in dir, whole or not at all.
func (s *state) write(dir string) error {
	raw, err := json.Marshal(s, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(filepath.Join(dir, stateFile), raw, 0o600)
}

// checker is the Checker of the state.
func (s *state) checker() (*Checker, error) {
	c := NewChecker(false)
	if err := json.Unmarshal(s.Checker, c, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%w: %w; remove it to begin anew", ErrState, err)
	}
	for _, g := range c.Grants {
		if g == nil {
			return nil, fmt.Errorf("%w: a grant without members; remove it to begin anew", ErrState)
		}
		for _, s := range g.Stops {
			if s == nil {
				return nil, fmt.Errorf("%w: a revocation without members; remove it to begin anew", ErrState)
			}
		}
	}
	for _, one := range c.Collections {
		if one == nil {
			return nil, fmt.Errorf("%w: a collection without members; remove it to begin anew", ErrState)
		}
	}
	if c.Grants == nil || c.Collections == nil {
		return nil, fmt.Errorf("%w: it knows no grants; remove it to begin anew", ErrState)
	}
	return c, nil
}
