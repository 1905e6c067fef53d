package follow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// skew is how far the log's clock may be ahead of ours.
const skew = envelope.Skew

// tries is how often both forms of the checkpoint are fetched, when the log
// publishes in between.
const tries = 5

// errCheckpoint: the two forms of a checkpoint do not go together.
var errCheckpoint = fmt.Errorf("%w: checkpoint", remote.ErrMalformed)

// advance fetches the note, and takes it on if it goes on from what was seen. It
// is on the disk before any entry is asked for, so that nothing is forgotten
// that was shown.
func (f *follower) advance(ctx context.Context) error {
	tree, note, err := f.http.Checkpoint(ctx)
	if err != nil {
		return err
	}
	s := f.state
	if s.Seen != "" {
		if err := f.continues(ctx, s.seen, tree, note); err != nil {
			return err
		}
	}
	if s.seen.Size == tree.Size && s.Note != "" && s.note == tree {
		s.Note = string(note) // it may have more cosignatures now
	}
	s.Seen, s.seen = string(note), tree
	return f.save()
}

// continues finds out whether next, of which the log just showed the note, goes
// on from seen. Errors: *Alert; those of the network.
func (f *follower) continues(ctx context.Context, seen, next translog.Tree, note []byte) error {
	alert := func(k Kind, format string, args ...any) *Alert {
		a := f.alert(k, next.Size, format, args...)
		a.files["old.note"], a.files["new.note"] = []byte(f.state.Seen), note
		return a
	}
	switch {
	case next == seen:
		return nil
	case next.Size == seen.Size:
		a := alert(Fork, "the tree of %d entries had the root %x, and now has %x", next.Size, seen.Root, next.Root)
		a.proven = true
		return a
	case next.Size < seen.Size:
		return alert(Rollback, "the log showed %d entries, and now shows %d", seen.Size, next.Size)
	}
	path, err := f.consistency(ctx, seen, next)
	if err == nil || !refused(err) {
		return err
	}
	a := alert(Inconsistent, "from %d entries to %d: %v", seen.Size, next.Size, err)
	a.prove(seen.Size, next.Size, path)
	return a
}

// consistency has the log prove that one tree goes on from another. A refused
// error means that it was reached and did not.
func (f *follower) consistency(ctx context.Context, from, to translog.Tree) ([][32]byte, error) {
	if from.Size == 0 || from.Size == to.Size {
		return nil, translog.VerifyConsistency(from.Size, to.Size, nil, from.Root, to.Root)
	}
	path, err := f.http.Consistency(ctx, from.Size, to.Size)
	if err == nil {
		err = translog.VerifyConsistency(from.Size, to.Size, path, from.Root, to.Root)
	}
	return path, err
}

// refused reports whether the log answered, and what it answered does not show
// what it was asked for.
func refused(err error) bool {
	return errors.Is(err, translog.ErrProof) || errors.Is(err, remote.ErrMalformed) || errors.Is(err, remote.ErrAbsent)
}

// prove adds the proof that came, for what it is worth.
func (a *Alert) prove(from, to uint64, path [][32]byte) {
	p := translog.ConsistencyProof{From: from, Hashes: translog.Hashes(path), To: to}
	if b, err := envelope.Canonical(&p); err == nil && path != nil {
		a.files["proof.json"] = b
	}
}

// judgeCheckpoint verifies the checkpoint as an artefact, which has a time, and
// says what it continues.
func (f *follower) judgeCheckpoint(ctx context.Context) error {
	for try := 1; ; try++ {
		raw, o, c, err := f.artefact(ctx)
		if err != nil {
			return err
		}
		s := f.state
		switch {
		case c.TreeSize == s.seen.Size && c.Root != envelope.Hash(s.seen.Root):
			a := f.alert(Fork, c.TreeSize, "the note of %d entries has the root %x, the signed checkpoint has %s", c.TreeSize, s.seen.Root, c.Root)
			a.files["checkpoint.json"], a.proven = raw, true
			return a
		case c.TreeSize == s.seen.Size:
			first := s.Issued.IsZero()
			s.Issued = envelope.At(o.IssuedAt)
			return f.join(ctx, first, c, raw)
		case try == tries:
			return fmt.Errorf("%w: the note of %s is of %d entries, its signed-checkpoint.json of %d", errCheckpoint, f.http.URL(), s.seen.Size, c.TreeSize)
		}
		if err := pause(ctx, time.Duration(try)*100*time.Millisecond); err != nil {
			return err
		}
		if err := f.advance(ctx); err != nil { // the log published in between
			return err
		}
	}
}

// artefact fetches signed-checkpoint.json, and checks what it says by itself.
func (f *follower) artefact(ctx context.Context) ([]byte, *envelope.Object, *translog.Checkpoint, error) {
	raw, err := f.http.SignedCheckpoint(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	c := new(translog.Checkpoint)
	o, err := envelope.Authenticate(raw, c, envelope.Verifier{Keys: f.log.Card, Type: envelope.Checkpoint, Threshold: 1})
	switch {
	case err != nil:
	case c.LogOrigin != f.origin():
		err = fmt.Errorf("it is of the log %.80q", c.LogOrigin)
	case c.Indexer != f.log.Card.Identity:
		err = fmt.Errorf("it is of the indexer %.80q", string(c.Indexer))
	case o.Sequence != c.TreeSize:
		err = fmt.Errorf("its sequence is %d, its tree has %d entries", o.Sequence, c.TreeSize)
	case o.IssuedAt.After(f.o.Now().Add(skew)):
		err = fmt.Errorf("it was issued in the future, at %s", envelope.At(o.IssuedAt))
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%w: %s/signed-checkpoint.json: %w", errCheckpoint, f.http.URL(), err)
	}
	return raw, o, c, nil
}

// join holds what a log says of the one that it continues against what that one
// showed, if it was followed here, and against what it said before.
func (f *follower) join(ctx context.Context, first bool, c *translog.Checkpoint, raw []byte) error {
	s := f.state
	alert := func(format string, args ...any) *Alert {
		a := f.alert(Discontinued, s.seen.Size, format, args...)
		a.files["checkpoint.json"] = raw
		return a
	}
	same := c.Continues == s.Continues || c.Continues != nil && s.Continues != nil && *c.Continues == *s.Continues
	if !first && !same {
		a := alert("it said that it continues %s, and now %s", words(s.Continues), words(c.Continues))
		a.proven = true
		return a
	}
	s.Continues = c.Continues
	if c.Continues == nil || s.Joined {
		return nil
	}
	old, err := readState(f.o.Dir, c.Continues.Origin)
	if err != nil || old == nil || old.Seen == "" {
		return err
	}
	end := c.Continues.Tree()
	if old.seen.Size > end.Size || old.seen.Size == end.Size && old.seen != end {
		a := alert("it continues %s, which showed %d entries under %x", words(c.Continues), old.seen.Size, old.seen.Root)
		a.files["old.note"], a.proven = []byte(old.Seen), true
		return a
	}
	err = consistentEnd(ctx, old, end, f.o.Remote)
	switch {
	case refused(err):
		a := alert("it continues %s, which does not prove that this is its end: %v", words(c.Continues), err)
		a.files["old.note"] = []byte(old.Seen)
		return a
	case err != nil:
		// It is asked again in the next round; the new log is no worse for it.
		f.words.Warn("the log before cannot be asked for its end", "origin", old.Origin, "error", err)
		return nil
	}
	s.Joined = true
	return nil
}

// consistentEnd asks a log that was followed here to prove its end.
func consistentEnd(ctx context.Context, old *state, end translog.Tree, o remote.Options) error {
	if old.seen == end {
		return nil
	}
	log, err := remote.New(old.URL, old.VKey, o)
	if err != nil {
		return err
	}
	defer log.Close()
	var path [][32]byte
	if old.seen.Size > 0 {
		if path, err = log.Consistency(ctx, old.seen.Size, end.Size); err != nil {
			return err
		}
	}
	return translog.VerifyConsistency(old.seen.Size, end.Size, path, old.seen.Root, end.Root)
}

func words(c *translog.Continues) string {
	if c == nil {
		return "no other log"
	}
	return fmt.Sprintf("%s at %d entries under %s", c.Origin, c.Size, c.Root)
}

// judgeWitnesses counts the cosignatures that are young enough to tell that the
// witnesses see what we are shown.
func (f *follower) judgeWitnesses(r *Report) error {
	p, s, now := f.log.Witnesses, f.state, f.o.Now()
	if p == nil {
		return nil
	}
	all, err := p.Cosignatures([]byte(s.Seen), now)
	if err != nil {
		f.words.Warn("cosignatures", "error", err)
	}
	young := all[:0]
	for _, c := range all {
		if now.Sub(c.At) <= f.o.Stale {
			young = append(young, c)
		}
	}
	r.Cosignatures = len(young)
	if p.Met(young) {
		s.Witnessed = envelope.At(now)
		return nil
	}
	since := s.Witnessed
	if since.IsZero() {
		since = s.Begun
	}
	if now.Sub(since.Time) <= f.o.Stale {
		return nil
	}
	return f.raise(f.alert(Unwitnessed, s.seen.Size, "%d witnesses cosigned the note of %d entries lately, and the quorum has not been met since %s", len(young), s.seen.Size, since))
}
