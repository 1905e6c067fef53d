package publisher

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// letters yields the dead letters of an agreement behind the row after, or all if
// it is nil, with the keys of their rows, one at a time, until yield has enough.
func (a agreement) letters(r durable.Reader, after []byte, yield func(key []byte, l DeadLetter) (bool, error)) error {
	lo := rowKey('A', a.rel.Series, 'f')
	hi := durable.PrefixEnd(lo)
	if after != nil {
		lo = append(bytes.Clone(after), 0)
	}
	for kv, err := range r.Scan(lo, hi) {
		if err != nil {
			return err
		}
		key := bytes.Clone(kv.Key)
		var l letter
		if _, err := durable.ReadJSON(r, key, &l); err != nil {
			return err
		}
		more, err := yield(key, DeadLetter{
			Indexer: a.rel.Indexer, Collection: a.rel.Collection, URL: l.URL, Reason: l.Reason, Detail: l.Detail, Revision: l.Revision, Since: l.Since,
		})
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// A DeadLetterList is one part of the list of all dead letters.
type DeadLetterList struct {
	Letters []DeadLetter `json:"letters"`
	Total   int          `json:"total"`          // of pages, in all parts; files that give none are not counted
	Next    string       `json:"next,omitempty"` // where the next part begins; empty behind the last
}

// MaxDeadLetters is how many DeadLetters returns at the most.
const MaxDeadLetters = 1000

// errEnough ends a list.
var errEnough = errors.New("enough")

// DeadLetters lists the pages that are not delivered, of all agreements, and behind
// them the files of folders that can give none: limit of them, at most
// MaxDeadLetters, from where an earlier part ended; from the first if after is
// empty. What is refused or delivered between two parts may be missed.
func (p *Publisher) DeadLetters(after string, limit int) (DeadLetterList, error) {
	list := DeadLetterList{Letters: []DeadLetter{}}
	from, err := hex.DecodeString(after)
	if err != nil {
		return list, fmt.Errorf("where the list goes on: %w", err)
	}
	limit = min(limit, MaxDeadLetters)
	add := func(key []byte, l DeadLetter) (bool, error) {
		if len(list.Letters) == limit {
			return false, errEnough
		}
		list.Letters = append(list.Letters, l)
		list.Next = hex.EncodeToString(key)
		return true, nil
	}
	err = p.eachLetter(from, &list.Total, add)
	if errors.Is(err, errEnough) {
		return list, nil
	}
	list.Next = ""
	return list, err
}

// eachLetter yields all letters behind the row after, in the order of their rows
// within each agreement and each collection, and counts those of pages.
func (p *Publisher) eachLetter(after []byte, total *int, yield func(key []byte, l DeadLetter) (bool, error)) error {
	rels, err := Relationships(p.dir)
	if err != nil {
		return err
	}
	sources, err := Sources(p.dir)
	if err != nil {
		return err
	}
	agreements := make([]agreement, len(rels))
	for i, r := range rels {
		agreements[i] = agreement{p.store, r}
		sum, err := agreements[i].letterSum(p.store)
		if err != nil {
			return err
		}
		*total += sum.Count
	}
	// What stands before the place where it goes on is passed over.
	passing := len(after) > 0
	begins := func(prefix []byte) (from []byte, skip bool) {
		switch {
		case !passing:
			return nil, false
		case bytes.HasPrefix(after, prefix):
			passing = false
			return after, false
		}
		return nil, true
	}
	for _, a := range agreements {
		if from, skip := begins(rowKey('A', a.rel.Series, 'f')); !skip {
			if err := a.letters(p.store, from, yield); err != nil {
				return err
			}
		}
	}
	for _, s := range sources {
		if from, skip := begins(noPageKey(s.Name, "")); !skip {
			if err := p.journal(s.Name).brokenFiles(p.store, from, yield); err != nil {
				return err
			}
		}
	}
	return nil
}
