package publisher

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The size of a batch before compression. Real pages shrink best at about 4
// MiB; the indexer's own limits come on top.
const (
	batchBytes = 4 << 20
	leastItems = 4000
	mostItems  = 8000
	// fewestItems is what an indexer may ask for, since others deliver as well. What
	// it takes it may bound further.
	fewestItems = 256
)

// itemsFor is how many items a batch has at the most, where the collection has so many
// pages. Each batch touches most blocks of the state, so the larger that is, the more
// small pages share one. Who delivers beside others is asked for fewer.
func itemsFor(pages uint64) int { return int(min(max(pages/64, leastItems), mostItems)) }

// maxWindow is the largest zstd window that the other side accepts.
const maxWindow = 8 << 20

// A draft is a batch without its manifest: what is offered, and the frame.
type draft struct {
	items                []offered
	wire                 oiv1.Items // as the frame has them
	bodies               [][]byte   // the payload of each item
	begins               uint64     // the revision that the first item counts from
	frame                []byte
	itemsBytes, rawBytes int
	through              uint64 // the journal was read up to here
	last                 bool   // nothing is left behind it, or may go today
	spent                bool   // a limit of the grant stands in the way of the rest
	alone                *alone // set for a page alone, in place of frame
	request              uint64 // the manifest's, of a batch that moves no cursor
	answers              uint64 // the id of what it answers, if the indexer asked
	patch                *patch // the smaller form, if there is one
	dead                 []letter
	over                 [][32]byte // pages whose letters count no more
}

// A drafter makes one draft after another out of a journal. It runs ahead of
// the session by one draft, since compression and the indexer's commit take
// about as long as one another. Of pages that travel alone it holds one at a
// time, whether it is in a draft or being sent.
type drafter struct {
	p       *Publisher
	journal journal
	agreed  agreement
	members *members
	source  reader
	cache   *payloads
	spooled spoolReader // of cache
	limits  *oiv1.Limits
	target  uint64         // the journal's head when the push began
	most    int            // items of a draft
	fewer   *atomic.Uint32 // the session's
	report  *Result
	pace    pacer
	resend  map[[32]byte]bool // pages that are offered whatever is known of them
	rows    rowReader         // in place of all changes of the journal; see sessionrequest.go
	patches bool
	filter  heldFilter // of what the indexer was offered; nil if each page is looked up

	dead []letter      // of the draft in hand
	over [][32]byte    // likewise
	one  chan struct{} // holds a token while a page alone is in hand
}

// run sends drafts from revision from on until the target is reached. The first
// begins at the revision that was acknowledged last.
func (d *drafter) run(ctx context.Context, from, begins uint64, out chan<- *draft) error {
	defer close(out)
	for {
		dr, err := d.next(ctx, from, begins)
		if err != nil {
			return err
		}
		select {
		case out <- dr:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if dr.last {
			return nil
		}
		if from = dr.through; len(dr.items) > 0 {
			begins = from
		}
	}
}

// next reads the journal from revision from on and fills one draft.
func (d *drafter) next(ctx context.Context, from, begins uint64) (*draft, error) {
	dr := &draft{through: d.target, last: true, begins: begins}
	d.pace.pages = 0
	d.dead, d.over = nil, nil
	defer func() { dr.dead, dr.over = d.dead, d.over }()
	size, previous := 0, begins
	snapshot, err := d.agreed.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer snapshot.Close()
	err = d.changes(snapshot, from, func(h [32]byte, row pageRow) (bool, error) {
		it, err := d.item(snapshot, h, row)
		if err == nil && it == nil && len(d.dead)+len(d.over) >= lettersOfDraft {
			dr.last, dr.through = false, row.Revision
			return false, nil
		}
		if err != nil || it == nil {
			return err == nil, err
		}
		if it.Op == translog.OpTombstone {
			row = pageRow{URL: row.URL, Revision: row.Revision, Deleted: true}
		}
		alone := !row.Deleted && uint64(row.Size) > d.maxShared()
		if d.ends(dr, row, size, alone) {
			return false, nil
		}
		body, err := d.body(ctx, h, row, alone)
		if err != nil || body == nil && !row.Deleted {
			return err == nil, err
		}
		d.filter.add(&h)
		dr.items = append(dr.items, *it)
		wi := &oiv1.Item{Op: oiv1.Op(it.Op), RevisionDelta: it.Revision - previous, Url: it.URL, Format: uint32(it.Format), Length: uint64(len(body))}
		if !row.Modified.IsZero() {
			wi.Modified = row.Modified.Unix()
		}
		dr.wire.Items = append(dr.wire.Items, wi)
		if p := it.place; p != nil {
			wi.ScopePath, wi.ScopeIndex = &oiv1.Path{Hashes: slicesOf(p.hashes)}, p.index
		}
		previous = it.Revision
		dr.bodies = append(dr.bodies, body)
		size += len(body) + len(it.URL) + it.place.octets() + 24
		if alone {
			dr.last, dr.through = false, it.Revision
			return false, d.setAlone(dr, body)
		}
		return true, nil
	})
	if err != nil || dr.alone != nil {
		return dr, err
	}
	if err := d.compress(dr); err != nil {
		return dr, err
	}
	return dr, d.setPatch(snapshot, dr)
}

func (d *drafter) maxBytes() int { return min(batchBytes, int(d.limits.BatchBytes)) }

// maxItems is the most items of a draft, at this moment.
func (d *drafter) maxItems() int {
	most := min(d.most, int(d.limits.BatchItems))
	if asked := int(d.fewer.Load()); asked > 0 {
		most = min(most, max(asked, fewestItems))
	}
	return most
}

// maxShared is the largest payload that may share a batch; maxPage that of any
// page.
func (d *drafter) maxShared() uint64 {
	if d.limits.AloneBytes == 0 {
		return d.maxPage()
	}
	return min(d.limits.AloneBytes, d.limits.BatchBytes/2)
}

func (d *drafter) maxPage() uint64 {
	most := min(d.limits.PageBytes, largestPage)
	if d.limits.AloneBytes == 0 {
		most = min(most, d.limits.BatchBytes/2)
	}
	return most
}

// item decides whether a row of the journal is to be offered. No item means that
// there is nothing to say about the row.
func (d *drafter) item(r durable.Reader, h [32]byte, row pageRow) (*offered, error) {
	fresh := d.filter.lacks(&h)
	var held state.Item
	var known bool
	if !fresh {
		var err error
		if held, known, err = d.agreed.tree().Lookup(r, h); err != nil {
			return nil, err
		}
	}
	if row.Deleted {
		if !known {
			return nil, d.passOver(r, h) // the indexer never heard of it
		}
		return &offered{URL: row.URL, Op: translog.OpTombstone, Format: held.Format, Revision: row.Revision}, nil
	}
	if d.agreed.rel.Match(row.URL) != nil {
		d.report.OutOfScope++
		return nil, d.passOver(r, h)
	}
	place, ok := d.members.lookup(row.URL, row.Digest)
	if !ok {
		d.report.OutOfScope++
		if !known {
			return nil, d.passOver(r, h)
		}
		return &offered{URL: row.URL, Op: translog.OpTombstone, Format: held.Format, Revision: row.Revision}, nil
	}
	if row.denies(d.agreed.rel.Pair.Grant.Body.Purposes) {
		d.report.Withheld++
		if !known {
			return nil, d.passOver(r, h)
		}
		return &offered{URL: row.URL, Op: translog.OpTombstone, Format: held.Format, Revision: row.Revision}, nil
	}
	if known && envelope.Hash(held.Digest) == row.Digest && held.Format == row.Format && !d.resend[h] {
		return nil, nil
	}
	if uint64(row.Size) > d.maxPage() {
		d.refuse(row, string(grants.ErrOversize), fmt.Sprintf("its payload has %d octets, at most %d are taken", row.Size, d.maxPage()))
		return nil, nil
	}
	if d.pace.never(row.Size) {
		d.refuse(row, string(grants.ErrLimit), fmt.Sprintf("its payload of %d octets is more than the grant allows for a day", row.Size))
		return nil, nil
	}
	it := &offered{URL: row.URL, Digest: row.Digest, Op: translog.OpPut, Format: row.Format, Revision: row.Revision, place: place, fresh: fresh}
	if known && !d.resend[h] {
		it.held = held.Digest
	}
	return it, nil
}

// body finds the payload of a row that is to be offered. None means that its
// source has moved on.
func (d *drafter) body(ctx context.Context, h [32]byte, row pageRow, alone bool) ([]byte, error) {
	if row.Deleted {
		return nil, nil
	}
	if alone {
		if err := d.take(ctx); err != nil {
			return nil, err
		}
	}
	body, ok := d.cache.lookup(h, row.Digest)
	var err error
	switch {
	case ok:
	case alone:
		body, err = d.fetch(ctx, h, row)
	default:
		if body = d.spooled.payload(row.Revision, h, row.Digest); body == nil {
			body, err = d.cache.shared.payload(ctx, h, row.Revision, func() ([]byte, error) { return d.fetch(ctx, h, row) })
		}
	}
	if alone && body == nil {
		d.giveBack()
	}
	return body, err
}

// fetch reads a page's payload from its source again. When the source has
// moved on, there is none: the journal has a later revision of the page then.
func (d *drafter) fetch(ctx context.Context, h [32]byte, row pageRow) ([]byte, error) {
	if uint64(row.Size) > d.maxShared() {
		// Making one takes more than holding it: one at a time, whoever it is for.
		d.p.largeMu.Lock()
		defer d.p.largeMu.Unlock()
	}
	p, err := d.source.Fetch(ctx, row.Location)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && p.URL == row.URL && envelope.Hash(p.Digest) == row.Digest && slices.Equal(deniedBy(p), row.Denied) {
		return p.Payload, nil
	}
	var now *content.Page
	if err == nil {
		now = &p
	}
	return nil, d.journal.again(h, now, d.p.now())
}

func slicesOf(hashes [][32]byte) [][]byte {
	all := make([][]byte, len(hashes))
	for i := range hashes {
		all[i] = hashes[i][:]
	}
	return all
}

// compress builds the frame: the list of items, then the payloads, in one
// zstd frame, so that URLs and pages of a batch share their words.
func (d *drafter) compress(dr *draft) error {
	if len(dr.items) == 0 {
		return nil
	}
	dr.itemsBytes = proto.Size(&dr.wire)
	dr.rawBytes = dr.itemsBytes + octetsOf(dr.bodies)
	var err error
	dr.frame, err = d.p.frames.encode(dr.rawBytes, func(raw []byte) ([]byte, error) {
		raw, err := (proto.MarshalOptions{Deterministic: true, UseCachedSize: true}).MarshalAppend(raw, &dr.wire)
		if err != nil {
			return nil, fmt.Errorf("batch of %s: %w", d.agreed.rel.Collection, err)
		}
		for _, b := range dr.bodies {
			raw = append(raw, b...)
		}
		return raw, nil
	})
	return err
}
