package translog

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A place is an entry with its index.
type place struct {
	*pending
	index uint64
}

// signEntries signs the entries, which have their indexes, on all cores, and hashes
// them as leaves.
func (g *group) signEntries() error {
	places := make([]place, 0, g.size-g.l.edge.size)
	for _, m := range g.members {
		for i := range m.tx.entries {
			places = append(places, place{&m.tx.entries[i], m.tx.first + uint64(i)})
		}
	}
	ends := portions(len(places), runtime.GOMAXPROCS(0))
	return parallel(len(ends), func(i int) error {
		first := 0
		if i > 0 {
			first = ends[i-1]
		}
		some := places[first:ends[i]]
		if err := g.l.signEntries(some, g.now); err != nil {
			return err
		}
		for _, e := range some {
			e.hash = LeafHash(e.raw)
		}
		runtime.Gosched() // to who has come back from the disk meanwhile, with the group before
		return nil
	})
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

// encoders are those of bodies of entries, which are a kilobyte or two each.
type encoders [envelope.SignedTogether]envelope.Encoder

var bodyEncoders = sync.Pool{New: func() any { return new(encoders) }}

// signEntries makes the octets of at most envelope.SignedTogether entries, but of
// those that have them: they are done, or opaque. The same entry gives the same octets
// again. Every Entry that can be written can be read back
// (TestEveryEntryThatIsSignedIsReadBack), so that is not tried each time.
func (l *Log) signEntries(places []place, now time.Time) error {
	w := bodyEncoders.Get().(*encoders)
	defer bodyEncoders.Put(w)
	var room [envelope.SignedTogether]envelope.Draft
	drafts := room[:0]
	for _, e := range places {
		if e.raw != nil {
			continue
		}
		body, err := e.body.encode(&w[len(drafts)])
		if err != nil {
			return err
		}
		drafts = append(drafts, envelope.Draft{Header: envelope.Header{
			Type: envelope.Entry, Authority: l.cfg.Authority, Subject: e.subject,
			Epoch: l.cfg.Epoch, Sequence: e.index, IssuedAt: now,
		}, Body: body})
	}
	objects, err := envelope.SignBodies(drafts, l.cfg.Indexer, l.cfg.Signer)
	if err != nil {
		return err
	}
	for _, e := range places {
		if e.raw != nil {
			continue
		}
		o := objects[0]
		if len(o.Raw) > MaxEntry {
			return fmt.Errorf("%w: %d octets, at most %d", ErrTooLarge, len(o.Raw), MaxEntry)
		}
		e.object, e.raw, objects = o, o.Raw, objects[1:]
	}
	return nil
}
