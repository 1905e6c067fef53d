package translog

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A place is an entry with its index.
type place struct {
	*pending
	index uint64
}

// hashAhead hashes the first entry that is not, if it is complete already, while there is
// nothing else to do.
func (g *group) hashAhead() bool {
	if g.hashed == len(g.places) || g.places[g.hashed].raw == nil {
		return false
	}
	p := g.places[g.hashed]
	p.hash = LeafHash(p.raw)
	g.hashed++
	return true
}

// enter signs the entries, which have their indexes, hashes them as leaves, and adds
// them to a copy of the edge, with their rows and those of the tiles they fill, on all
// cores.
func (g *group) enter() error {
	next, err := g.l.edge.clone()
	if err != nil {
		return err
	}
	ends := portions(len(g.places), runtime.GOMAXPROCS(0))
	e := &entering{g: g, next: next, ends: ends, signed: make([]atomic.Bool, len(ends))}
	if err := parallel(len(ends), e.sign); err != nil {
		return err
	}
	e.grow()
	g.next = next
	return e.err
}

// entering are the entries of a group while they are signed, in portions, and added
// in their order to the edge.
type entering struct {
	g      *group
	ends   []int         // where each portion ends in g.places
	signed []atomic.Bool // which portions are

	mu    sync.Mutex
	next  *edge
	added int   // how many portions were added to it
	err   error // what kept one out
}

// portion is number i, and where it begins.
func (e *entering) portion(i int) (some []place, first int) {
	if i > 0 {
		first = e.ends[i-1]
	}
	return e.g.places[first:e.ends[i]], first
}

// sign signs portion i, and adds what can be added by then, unless somebody does so.
func (e *entering) sign(i int) error {
	some, first := e.portion(i)
	if err := e.g.l.signEntries(some, e.g.now, e.g.mem); err != nil {
		return err
	}
	for _, p := range some[min(max(e.g.hashed-first, 0), len(some)):] {
		p.hash = LeafHash(p.raw)
	}
	e.signed[i].Store(true)
	if e.mu.TryLock() {
		e.add()
		e.mu.Unlock()
	}
	if e.g.signs { // which takes long
		runtime.Gosched() // to who has come back from the disk meanwhile, with the group before
	}
	return nil
}

// grow adds the rest.
func (e *entering) grow() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.add()
}

// add adds the portions that are signed up to the first that is not.
func (e *entering) add() {
	for ; e.err == nil && e.added < len(e.ends) && e.signed[e.added].Load(); e.added++ {
		some, _ := e.portion(e.added)
		for _, p := range some {
			e.err = cmp.Or(e.err, e.g.add(p, e.next))
		}
	}
}

// add makes p the next entry of e.
func (g *group) add(p place, e *edge) error {
	tile := func(level int, index uint64, tile []byte) error {
		return g.batch.Set(g.l.rows.key(tileKey(level, index)), tile)
	}
	err := errors.Join(e.grow(p.hash, tile), g.batch.Set(g.l.rows.key(entryKey(p.index)), p.raw))
	if len(p.leaves) > 0 {
		err = errors.Join(err, g.batch.Set(g.l.rows.key(setKeyOf(p.index)), joinHashes(p.leaves)))
	}
	return err
}

// portions divides n entries among the processors and tells where each portion ends.
// They become smaller to the end, so that no processor is left with a large one when
// the others are done.
func portions(n, processors int) (ends []int) {
	const least = 8 // of fewer, each signature would take a tenth longer
	for end := 0; end < n; {
		end += min(max((n-end)/(2*processors), least), envelope.SignedTogether, n-end)
		ends = append(ends, end)
	}
	return ends
}

// A desk is the memory in which entries are drafted, whose bodies are a kilobyte or two
// each.
type desk struct {
	encoders [envelope.SignedTogether]envelope.Encoder
	drafts   [envelope.SignedTogether]envelope.Draft
}

var desks = sync.Pool{New: func() any { return new(desk) }}

// signEntries makes the octets of at most envelope.SignedTogether entries in m, but of
// those that have them: they are done, or opaque. The same entry gives the same octets
// again. Every Entry that can be written can be read back
// (TestEveryEntryThatIsSignedIsReadBack), so that is not tried each time.
func (l *Log) signEntries(places []place, now time.Time, m *memory) error {
	w := desks.Get().(*desk)
	defer desks.Put(w)
	drafts := w.drafts[:0]
	for _, e := range places {
		if e.raw != nil {
			continue
		}
		body, err := e.body.encode(&w.encoders[len(drafts)])
		if err != nil {
			return err
		}
		drafts = append(drafts, envelope.Draft{Header: envelope.Header{
			Type: envelope.Entry, Authority: l.cfg.Authority, Subject: e.subject,
			Epoch: l.cfg.Epoch, Sequence: e.index, IssuedAt: now,
		}, Body: body})
	}
	if len(drafts) == 0 {
		return nil
	}
	objects, err := m.pad().SignBodies(drafts, l.cfg.Indexer, l.cfg.Signer)
	if err != nil {
		return err
	}
	for _, e := range places {
		if e.raw != nil {
			continue
		}
		o := &objects[0]
		if len(o.Raw) > MaxEntry {
			return fmt.Errorf("%w: %d octets, at most %d", ErrTooLarge, len(o.Raw), MaxEntry)
		}
		e.object, e.raw, objects = o, o.Raw, objects[1:]
	}
	return nil
}
