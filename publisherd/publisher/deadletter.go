package publisher

import (
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
	Excluded bool          `json:"excluded,omitzero"` // by the indexer: it is a row of the state, without content
}

func letterKey(series string, h [32]byte) []byte { return rowKey('A', series, 'f', h[:]) }

// lettersOfDraft bounds how many of them one draft brings.
const lettersOfDraft = 4096

// bury writes a letter, under the time of the page's first one.
func (a agreement) bury(b *durable.Batch, sum *letterSum, l letter) error {
	key := letterKey(a.rel.Series, urlHash(l.URL))
	var before letter
	known, err := durable.ReadJSON(b, key, &before)
	if err != nil {
		return err
	}
	if known {
		l.Since = before.Since
		l.Excluded = l.Excluded || before.Excluded // it is a row of the state still
		sum.remove(before)
	}
	sum.add(l)
	return durable.WriteJSON(b, key, l)
}

// exhume takes the letter of a page away, if there is one.
func (a agreement) exhume(b *durable.Batch, sum *letterSum, h [32]byte) error {
	key := letterKey(a.rel.Series, h)
	var before letter
	known, err := durable.ReadJSON(b, key, &before)
	if err != nil || !known {
		return err
	}
	sum.remove(before)
	return b.Delete(key)
}

// settleLetters takes note of what became of the items of a batch, in the commit
// of its receipt. Mostly there is no letter, and then not each page has to be
// looked up.
func (a agreement) settleLetters(b *durable.Batch, items []offered, all []decided, at envelope.Time) error {
	sum, err := a.letterSum(b)
	if err != nil {
		return err
	}
	for i, it := range items {
		var err error
		switch {
		case it.Op == translog.OpPut && all[i].decision == translog.Exclude:
			err = a.bury(b, &sum, letter{URL: it.URL, Reason: clean(all[i].reason), Revision: it.Revision, Since: at, Excluded: true})
		case sum.Count > 0:
			err = a.exhume(b, &sum, urlHash(it.URL))
		}
		if err != nil {
			return err
		}
	}
	return a.setLetterSum(b, sum)
}

// buryAll writes what this side found out itself, and takes away what counts no
// more; it is durable on return.
func (a agreement) buryAll(dead []letter, over [][32]byte) error {
	if len(dead)+len(over) == 0 {
		return nil
	}
	b := a.store.NewBatch()
	defer b.Close()
	sum, err := a.letterSum(b)
	if err != nil {
		return err
	}
	for _, l := range dead {
		if err := a.bury(b, &sum, l); err != nil {
			return err
		}
	}
	for _, h := range over {
		if err := a.exhume(b, &sum, h); err != nil {
			return err
		}
	}
	return errors.Join(a.setLetterSum(b, sum), b.Commit())
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
