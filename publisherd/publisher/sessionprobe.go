package publisher

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// probeTag is hashed before what a probe is answered from.
const probeTag = "uzpif-oi/probe/v1"

// Bounds of the probes of one session. Each costs this side one page of its
// source, and the other one page of its store.
const (
	maxProbes   = 8              // that an indexer has to answer; the last is for a page that was sent again
	firstProbes = 2              // when a session of one series begins; of several series, one each
	probeEvery  = 24 * time.Hour // one more, while the session stays
	probeRest   = 3 * time.Hour  // a session that brings nothing asks for none sooner after the last
	probeDraws  = 4              // draws for one probe, since not every page can be asked for
	maxProbed   = 16 << 20       // octets of a page
)

// ErrProbe is returned when an indexer cannot show a page that it has
// acknowledged, not even after it was sent once more.
var ErrProbe = errors.New("the indexer does not hold what it has acknowledged")

// probing is what a session has asked of the indexer so far.
type probing struct {
	asked  int
	last   time.Time
	begun  map[string]bool              // series
	resend map[string]map[[32]byte]bool // pages by series: to be sent whatever the indexer says that it holds
}

// lastProbe is the row of when pages of a series were asked for last.
type lastProbe struct {
	At time.Time `json:"at"`
}

// rested reports whether a series may be left alone in a session that has
// brought nothing: two probes cost half as much as the whole of it. A clock that
// was moved back lets none be passed over.
func (s *session) rested(a agreement, report *Result) (bool, error) {
	alarm, err := s.p.alarm(a.rel)
	if err != nil || alarm != nil || len(report.Receipts) > 0 {
		return false, err
	}
	var last lastProbe
	found, err := durable.ReadJSON(s.p.store, rowKey('A', a.rel.Series, 'q'), &last)
	age := s.p.now().Sub(last.At)
	return found && age >= 0 && age < probeRest, err
}

// keepProbed notes that pages were asked for.
func (s *session) keepProbed(a agreement) error {
	b := s.p.store.NewBatch()
	defer b.Close()
	if err := durable.WriteJSON(b, rowKey('A', a.rel.Series, 'q'), lastProbe{s.p.now()}); err != nil {
		return err
	}
	return b.Commit()
}

// due is how many probes a series has now.
func (s *session) due(series string) int {
	left := maxProbes - 1 - s.probing.asked
	switch {
	case !s.probing.begun[series] && len(s.rels) == 1:
		return min(firstProbes, left)
	case !s.probing.begun[series], s.p.now().Sub(s.probing.last) >= probeEvery:
		return min(1, left)
	}
	return 0
}

// probe asks the indexer to show that it has the payloads of some pages that it
// acknowledged, drawn at random. One that it cannot show raises an alarm, and is
// sent again in a reconciliation; then it is asked for once more.
func (s *session) probe(ctx context.Context, a agreement, col *collection, report *Result) error {
	if s.probing.begun == nil {
		s.probing.begun = make(map[string]bool)
	}
	n := s.due(a.rel.Series)
	if n > 0 && !s.probing.begun[a.rel.Series] {
		rested, err := s.rested(a, report)
		if err != nil {
			return err
		}
		if rested {
			n = 0
		} else if err := s.keepProbed(a); err != nil {
			return err
		}
	}
	if s.probing.begun[a.rel.Series] = true; s.probing.last.IsZero() {
		s.probing.last = s.p.now() // the next is due a day after the session began
	}
	for range n {
		page, err := s.choose(ctx, a, col)
		if err != nil || page == nil {
			return err
		}
		wrong, err := s.ask(ctx, a.rel.Series, page, report)
		if err != nil {
			return err
		}
		if wrong != "" {
			return s.sendAgain(ctx, a, col, page, wrong, report)
		}
	}
	return nil
}

// A probed page is one with the payload that this side has of it.
type probedPage struct {
	hash    [32]byte
	url     string
	payload []byte
}

// choose draws a page that the indexer has acknowledged and must hold still, and
// whose payload is here as it was then. None means that the draws found none.
func (s *session) choose(ctx context.Context, a agreement, col *collection) (*probedPage, error) {
	snapshot, err := s.p.store.Snapshot()
	if err != nil {
		return nil, err
	}
	defer snapshot.Close()
	for range probeDraws {
		h, ok, err := s.p.draw(a.tree(), snapshot)
		if err != nil || !ok {
			return nil, err
		}
		row, err := s.p.mustBeHeld(snapshot, a, h)
		if err != nil {
			return nil, err
		}
		if row == nil {
			continue
		}
		payload, err := col.payloadOf(ctx, snapshot, h, row.Digest)
		if err != nil {
			return nil, err
		}
		if payload != nil {
			return &probedPage{h, row.URL, payload}, nil
		}
	}
	return nil, nil
}

// chance is where random octets come from.
func (p *Publisher) chance() io.Reader {
	if p.random == nil {
		return rand.Reader
	}
	return p.random
}

// draw draws one page of a tree, each as likely as any other: an indexer must not
// be able to tell which of them are hardly ever asked for.
func (p *Publisher) draw(t state.Tree, r durable.Reader) (h [32]byte, ok bool, err error) {
	_, count, err := t.Root(r)
	if err != nil || count == 0 {
		return h, false, err
	}
	var b [8]byte
	if _, err := io.ReadFull(p.chance(), b[:]); err != nil {
		return h, false, err
	}
	n := binary.BigEndian.Uint64(b[:]) % count // out of 2^64, so that the rest does not count
	var at state.Prefix
	for {
		children, isNode, err := t.Children(r, at)
		if err != nil {
			return h, false, err
		}
		if !isNode {
			break
		}
		i := 0
		for i < len(children)-1 && n >= children[i].Count {
			n -= children[i].Count
			i++
		}
		at = at.Child(i)
	}
	for it, err := range t.Leaves(r, at) {
		if err != nil {
			return h, false, err
		}
		if n == 0 {
			return it.URLHash, true, nil
		}
		n--
	}
	return h, false, errors.New("the state's tree counts more pages than it has")
}

// mustBeHeld is what was acknowledged of a page, if the indexer took it in, may
// have it still, and may keep it for long enough to be asked.
func (p *Publisher) mustBeHeld(r durable.Reader, a agreement, h [32]byte) (*ackedPage, error) {
	row, ok, err := a.lookupAcked(r, h)
	if err != nil || !ok || row.Op != translog.OpPut || row.Decision == translog.Exclude || a.rel.Match(row.URL) != nil {
		return nil, err
	}
	var ans storedAnswer
	if ok, err = durable.ReadJSON(r, receiptKey(row.Receipt), &ans); err != nil || !ok {
		return nil, err
	}
	days := a.rel.Pair.Retention().CachedCopyDays
	if !p.now().Before(ans.IssuedAt.Add(time.Duration(days) * 24 * time.Hour)) {
		return nil, nil
	}
	return &row, nil
}

// payloadOf reads a page of the source that has not changed since it had that
// digest; nil if it has, or cannot be read. A server from which pages are fetched
// one by one is not asked again for the sake of a probe: of such a source only
// what this session has just read is probed.
func (c *collection) payloadOf(ctx context.Context, r durable.Reader, h [32]byte, digest envelope.Hash) ([]byte, error) {
	row, known, err := c.journal.page(r, h)
	if err != nil || !known || row.Deleted || row.Digest != digest || row.Size > maxProbed {
		return nil, err
	}
	if payload, ok := c.cache.lookup(h, digest); ok {
		return payload, nil
	}
	if payload := (&spoolReader{s: c.cache.spool}).payload(row.Revision, h, digest); payload != nil {
		return payload, nil
	}
	if c.afar {
		return nil, nil
	}
	p, err := c.source.Fetch(ctx, row.Location)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil || p.URL != row.URL || envelope.Hash(p.Digest) != digest {
		return nil, nil // the next scan tells what became of it
	}
	return p.Payload, nil
}

// ask asks for one page. wrong says why what came does not show it.
func (s *session) ask(ctx context.Context, series string, page *probedPage, report *Result) (wrong string, err error) {
	var nonce [32]byte
	if _, err := io.ReadFull(s.p.chance(), nonce[:]); err != nil {
		return "", err
	}
	s.probing.asked, s.probing.last = s.probing.asked+1, s.p.now()
	report.Probes++
	q := &oiv1.Probe{Series: series, Url: page.url, Nonce: nonce[:]}
	if err := s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Probe{Probe: q}}); err != nil {
		return "", err
	}
	f, err := s.next(ctx)
	if err != nil {
		return "", err
	}
	answer := f.GetProbeAnswer()
	if answer == nil || !bytes.Equal(answer.Nonce, nonce[:]) {
		return "", s.violation("an answer to something else than the page that was asked for")
	}
	want := envelope.TaggedHash(probeTag, nonce[:], page.payload)
	switch {
	case answer.Refused != "":
		return fmt.Sprintf("it answers %.64q", answer.Refused), nil
	case !bytes.Equal(answer.Proof, want[:]):
		return "its proof is of something else", nil
	}
	return "", nil
}

// sendAgain answers a page that the indexer could not show: with an alarm, and a
// reconciliation in which that page is sent whatever the indexer says.
func (s *session) sendAgain(ctx context.Context, a agreement, col *collection, page *probedPage, wrong string, report *Result) error {
	failed := fmt.Errorf("%w: %s of %s: %s", ErrProbe, page.url, s.name(), wrong)
	s.p.log.Error("alarm", "indexer", s.name(), "series", a.rel.Series, "error", failed)
	report.Unshown = append(report.Unshown, RefusedItem{page.url, wrong})
	if err := s.p.raise(a.rel, failed); err != nil {
		return err
	}
	s.probing.resend = map[string]map[[32]byte]bool{a.rel.Series: {page.hash: true}}
	err := s.push(ctx, a.rel, col, report)
	s.probing.resend = nil
	if err != nil {
		return err
	}
	if err := s.follow(a.rel, report); err != nil {
		return err
	}
	if wrong, err = s.ask(ctx, a.rel.Series, page, report); err != nil || wrong == "" {
		return err
	}
	return fmt.Errorf("%w: %s of %s, after it was sent again: %s", ErrProbe, page.url, s.name(), wrong)
}
