package publisher

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// Bounds of the comparison of an indexer's log with what everybody is shown.
const (
	compareEvery   = 24 * time.Hour   // while a session stays
	compareTimeout = 10 * time.Second // for all of one comparison
	maxLag         = 24 * time.Hour   // in which what a session showed has to be published
)

// ErrSplitView is returned when an indexer shows this publisher another log than
// everybody else. Both checkpoints are kept in the folder alarms.
var ErrSplitView = errors.New("the indexer shows another log to the public than to this publisher")

// States of a LogCheck.
const (
	LogConsistent   = "consistent"   // one growing log, in public and in the session
	LogBehind       = "behind"       // the public log has not come so far yet
	LogUnreachable  = "unreachable"  // a warning: the public log could not be read
	LogInconsistent = "inconsistent" // ErrSplitView
)

// A LogCheck is what became of the last comparison of an indexer's public log,
// read as anybody reads it, with the one that its sessions show.
type LogCheck struct {
	At         envelope.Time `json:"at"`
	State      string        `json:"state"`
	Detail     string        `json:"detail,omitzero"`
	Size       uint64        `json:"tree_size"`        // as the session showed it
	PublicSize uint64        `json:"public_tree_size"` // as last read
	Origin     string        `json:"origin"`
	// Root is that of the largest public tree that was found consistent, at
	// AgreedSize.
	AgreedSize uint64        `json:"agreed_size"`
	Root       envelope.Hash `json:"root,omitzero"`
	// OwedSize is the size of a tree that a session showed at OwedSince and that
	// is not published yet.
	OwedSize  uint64        `json:"owed_size,omitzero"`
	OwedSince envelope.Time `json:"owed_since,omitzero"`
}

// A publicLog is a log as anybody reads it.
type publicLog interface {
	Checkpoint(ctx context.Context) (translog.Tree, []byte, error)
	Consistency(ctx context.Context, from, to uint64) ([][32]byte, error)
	Close()
}

// openPublic reads a log over HTTP, without any certificate of ours, and by the way
// on which sessions go out (TestThePublicLogIsReadByTheWayOfSessions).
func (p *Publisher) openPublic(log *identity.Log) (publicLog, error) {
	d := link.Dialer{Proxy: p.proxy, Authorization: p.proxyCredential}
	return remote.New(log.URL, log.VKey, remote.Options{
		Dial: d.Dial, Timeout: compareTimeout / 2, Tries: 2, Patience: compareTimeout / 4, Ahead: 1, Agent: "publisherd",
	})
}

func checkKey(indexer envelope.Name) []byte { return rowKey('L', string(indexer), 'c') }

// logCheck is the last comparison of an indexer's present log, nil if none was
// made.
func (p *Publisher) logCheck(who *identity.Peer) (*LogCheck, error) {
	var c LogCheck
	ok, err := durable.ReadJSON(p.store, checkKey(who.Card.Identity), &c)
	if err != nil || !ok || c.Origin != who.Card.Log.Origin {
		return nil, err
	}
	return &c, nil
}

// compare reads the public log of an indexer and proves it consistent with seen,
// which a session has shown by note. Only ErrSplitView, and a store that fails,
// are errors: everything else is noted for the status. What is read has until
// limited ends; nothing is noted if session ends before.
func (p *Publisher) compare(session, limited context.Context, who *identity.Peer, seen translog.Tree, note []byte) error {
	if p.public == nil || seen.Origin != who.Card.Log.Origin {
		return nil
	}
	last, err := p.logCheck(who)
	if err != nil {
		return err
	}
	c := LogCheck{Origin: seen.Origin}
	if last != nil {
		c = *last
	}
	c.At, c.Size = envelope.At(p.now()), seen.Size
	theirs, err := p.compareWith(limited, who.Card.Log, seen, &c)
	split := errors.Is(err, ErrSplitView)
	switch {
	case split:
		c.State = LogInconsistent
		err = errors.Join(err, keepSplit(p.dir, who, note, theirs, p.now()))
	case session.Err() != nil:
		return nil // the session has ended
	case last != nil && last.State == LogInconsistent && err != nil:
		return last.err(who) // what was found out is not forgotten because nobody answers
	case err != nil:
		c.State, c.Detail = LogUnreachable, clean(err.Error())
		p.log.Warn("public log", "indexer", who.Card.Identity, "url", who.Card.Log.URL, "error", err)
		err = nil
	}
	if split {
		c.Detail = clean(err.Error())
	}
	if last != nil && c.At.Sub(last.At.Time) < compareSpare {
		if last.asOf(c.At) == c {
			return err // nothing new
		}
	}
	b := p.store.NewBatch()
	defer b.Close()
	return errors.Join(err, durable.WriteJSON(b, checkKey(who.Card.Identity), c), b.Commit())
}

// asOf is c at another time.
func (c LogCheck) asOf(t envelope.Time) LogCheck {
	c.At = t
	return c
}

// compareWith fills c in, and returns the public note.
func (p *Publisher) compareWith(ctx context.Context, log *identity.Log, seen translog.Tree, c *LogCheck) ([]byte, error) {
	public, err := p.public(log)
	if err != nil {
		return nil, err
	}
	defer public.Close()
	tree, note, err := public.Checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	c.PublicSize, c.Detail = tree.Size, ""
	// The public log can prove what it has published: from the largest tree that
	// is known, of those that it has come to.
	known := seen
	if tree.Size < seen.Size {
		known = translog.Tree{Origin: seen.Origin, Size: c.AgreedSize, Root: c.Root}
	}
	if known.Size <= tree.Size {
		if err := extends(ctx, public, known, tree); err != nil {
			return note, err
		}
		c.AgreedSize, c.Root = tree.Size, tree.Root
	}
	return note, c.owe(tree.Size, seen.Size)
}

// extends has the public log prove that next continues known.
func extends(ctx context.Context, public publicLog, known, next translog.Tree) error {
	if known.Size == 0 {
		return nil
	}
	var path [][32]byte
	if known.Size < next.Size {
		var err error
		if path, err = public.Consistency(ctx, known.Size, next.Size); err != nil {
			return err
		}
	}
	if err := translog.VerifyConsistency(known.Size, next.Size, path, known.Root, next.Root); err != nil {
		return fmt.Errorf("%w: %d entries under %x here, %d under %x in public: %w", ErrSplitView, known.Size, known.Root[:8], next.Size, next.Root[:8], err)
	}
	return nil
}

// owe takes note of what is not published yet. A log that never publishes it
// shows two views as well.
func (c *LogCheck) owe(public, seen uint64) error {
	if public >= c.OwedSize {
		c.OwedSize, c.OwedSince = 0, envelope.Time{}
	}
	if public >= seen {
		c.State = LogConsistent
		return nil
	}
	c.State = LogBehind
	if c.OwedSize == 0 {
		c.OwedSize, c.OwedSince = seen, c.At
	}
	c.Detail = fmt.Sprintf("%d entries are published, and a session showed %d at %s", public, c.OwedSize, c.OwedSince)
	if c.At.Sub(c.OwedSince.Time) > maxLag {
		return fmt.Errorf("%w: %s", ErrSplitView, c.Detail)
	}
	return nil
}

// Due is when what is owed has to be published; later, the indexer shows two views.
func (c *LogCheck) Due() envelope.Time { return envelope.At(c.OwedSince.Add(maxLag)) }

func (c *LogCheck) err(who *identity.Peer) error {
	return fmt.Errorf("%w: %s: found at %s; it is not dialled until the two agree again, or its operator has begun a new log and you have imported the new card",
		ErrSplitView, who.Card.Identity, c.At)
}

// recheck refuses an indexer whose log was found split, unless the comparison
// comes out well now.
func (p *Publisher) recheck(ctx context.Context, who *identity.Peer, seen translog.Tree, note []byte) error {
	last, err := p.logCheck(who)
	if err != nil || last == nil || last.State != LogInconsistent {
		return err
	}
	if p.public == nil {
		return last.err(who)
	}
	limited, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	return p.compare(ctx, limited, who, seen, note)
}

// keepSplit keeps the two notes: what the session showed, and what everybody is
// shown. The same two are kept once, and the folder's bound holds for them too.
func keepSplit(dir string, who *identity.Peer, seen, public []byte, now time.Time) error {
	id := envelope.TaggedHash("split", seen, []byte{0}, public)
	path := filepath.Join(dir, "alarms", hex.EncodeToString(id[:16])+".json")
	kept, err := filepath.Glob(filepath.Join(dir, "alarms", "*.json"))
	if err != nil || len(kept) >= maxAlarms || slices.Contains(kept, path) {
		return err
	}
	b, err := json.Marshal(map[string]string{
		"indexer": string(who.Card.Identity), "log": who.Card.Log.URL, "session_note": string(seen), "public_note": string(public),
		"received_at": envelope.At(now).String(),
	}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(path, b, 0o600)
}
