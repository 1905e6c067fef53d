package publisher

import (
	"bytes"
	"errors"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A DeadLetter is a page that an agreement does not deliver as it is: the indexer
// excluded it, or refused every batch with it, or it is beyond what the indexer or
// the grant takes. The rest goes on. It is kept until the page is delivered, in
// another revision, or is gone (TestADeadLetterStaysUntilThePageIsDelivered).
type DeadLetter struct {
	Indexer    envelope.Name `json:"indexer,omitempty"` // none: the file gives no page for anybody
	Collection string        `json:"collection"`
	URL        string        `json:"url,omitempty"`
	Location   string        `json:"location,omitempty"` // of such a file, in its folder
	Reason     string        `json:"reason"`
	Detail     string        `json:"detail,omitempty"`  // in the indexer's words, or in ours
	Revision   uint64        `json:"revision,omitzero"` // that was refused last
	Since      envelope.Time `json:"since"`             // of the first refusal
}

// A letter is the row of a DeadLetter.
type letter struct {
	URL      string        `json:"url"`
	Reason   string        `json:"reason"`
	Detail   string        `json:"detail,omitempty"`
	Revision uint64        `json:"revision"`
	Since    envelope.Time `json:"since"`
}

func letterKey(series string, h [32]byte) []byte { return rowKey('A', series, 'f', h[:]) }

// lettersOfDraft bounds how many of them one draft brings.
const lettersOfDraft = 4096

// bury writes a letter, under the time of the page's first one.
func (a agreement) bury(b *durable.Batch, l letter) error {
	key := letterKey(a.rel.Series, urlHash(l.URL))
	var before letter
	known, err := durable.ReadJSON(b, key, &before)
	if err != nil {
		return err
	}
	if known {
		l.Since = before.Since
	}
	return durable.WriteJSON(b, key, l)
}

// settleLetters takes note of what became of the items of a batch, in the commit
// of its receipt.
func (a agreement) settleLetters(b *durable.Batch, items []offered, all []decided, at envelope.Time) error {
	any, err := a.anyLetter(b)
	if err != nil {
		return err
	}
	for i, it := range items {
		if it.Op == translog.OpPut && all[i].decision == translog.Exclude {
			if err := a.bury(b, letter{URL: it.URL, Reason: clean(all[i].reason), Revision: it.Revision, Since: at}); err != nil {
				return err
			}
			continue
		}
		if !any {
			continue
		}
		key := letterKey(a.rel.Series, urlHash(it.URL))
		_, err := b.Get(key)
		if err == nil {
			err = b.Delete(key)
		}
		if err != nil && !errors.Is(err, durable.ErrNotFound) {
			return err
		}
	}
	return nil
}

// anyLetter reports whether there is one: mostly there is none, and then not each
// page has to be looked up.
func (a agreement) anyLetter(r durable.Reader) (bool, error) {
	all := rowKey('A', a.rel.Series, 'f')
	for _, err := range r.Scan(all, durable.PrefixEnd(all)) {
		return true, err
	}
	return false, nil
}

// buryAll writes what this side found out itself, and takes away what counts no
// more; it is durable on return.
func (a agreement) buryAll(dead []letter, over [][32]byte) error {
	if len(dead)+len(over) == 0 {
		return nil
	}
	b := a.store.NewBatch()
	defer b.Close()
	for _, l := range dead {
		if err := a.bury(b, l); err != nil {
			return err
		}
	}
	for _, h := range over {
		if err := b.Delete(letterKey(a.rel.Series, h)); err != nil {
			return err
		}
	}
	return b.Commit()
}

// refuse notes a page that is not offered.
func (d *drafter) refuse(row pageRow, reason, detail string) {
	d.report.refuse(row.URL, reason)
	d.dead = append(d.dead, letter{URL: row.URL, Reason: reason, Detail: detail, Revision: row.Revision, Since: envelope.At(d.p.now())})
}

// passOver notes a page that is not offered for another reason: a letter about it
// counts no more.
func (d *drafter) passOver(r durable.Reader, h [32]byte) error {
	_, err := r.Get(letterKey(d.agreed.rel.Series, h))
	if errors.Is(err, durable.ErrNotFound) {
		return nil
	}
	d.over = append(d.over, h)
	return err
}

// A RefusedStatus sums the dead letters of an agreement up.
type RefusedStatus struct {
	Count   int            `json:"count"`
	Reasons map[string]int `json:"reasons"`
	Since   envelope.Time  `json:"since,omitzero"` // of the oldest
	// First are at most 10 of them.
	First []DeadLetter `json:"first"`
}

// letters yields the dead letters of an agreement, one at a time.
func (a agreement) letters(r durable.Reader, yield func(DeadLetter) error) error {
	lo := rowKey('A', a.rel.Series, 'f')
	for kv, err := range r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return err
		}
		var l letter
		if _, err := durable.ReadJSON(r, bytes.Clone(kv.Key), &l); err != nil {
			return err
		}
		if err := yield(DeadLetter{
			Indexer: a.rel.Indexer, Collection: a.rel.Collection, URL: l.URL, Reason: l.Reason, Detail: l.Detail, Revision: l.Revision, Since: l.Since,
		}); err != nil {
			return err
		}
	}
	return nil
}

// refused sums up; nil if there are none.
func (a agreement) refused(r durable.Reader) (*RefusedStatus, error) {
	s := &RefusedStatus{Reasons: make(map[string]int)}
	err := a.letters(r, func(l DeadLetter) error {
		s.Count++
		s.Reasons[l.Reason]++
		if s.Since.IsZero() || l.Since.Before(s.Since.Time) {
			s.Since = l.Since
		}
		if len(s.First) < 10 {
			s.First = append(s.First, l)
		}
		return nil
	})
	if err != nil || s.Count == 0 {
		return nil, err
	}
	return s, nil
}

// DeadLetters lists the pages that are not delivered, of all agreements, and behind
// them the files of folders that can give none.
func (p *Publisher) DeadLetters() ([]DeadLetter, error) {
	rels, err := Relationships(p.dir)
	if err != nil {
		return nil, err
	}
	all := []DeadLetter{}
	for _, r := range rels {
		err := agreement{p.store, r}.letters(p.store, func(l DeadLetter) error {
			all = append(all, l)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	sources, err := Sources(p.dir)
	if err != nil {
		return nil, err
	}
	for _, s := range sources {
		err := p.journal(s.Name).brokenFiles(p.store, func(l DeadLetter) error {
			all = append(all, l)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}
