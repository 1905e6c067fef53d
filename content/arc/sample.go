package arc

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/uzpif-oi/uzpif-oi/content/site"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// A sample is some of the pages whose snapshot is new or has changed. A snapshot
// stands for its page without anybody having seen that; some are looked at, so
// that one that tells another story is found (E.11).
type sample struct {
	most   int
	picked []pick // by ascending lot
}

// A pick is one page, and its lot: a hash, so that nobody chooses who writes the
// sitemap in good order, and that the same reading gives the same sample.
type pick struct {
	row row
	lot [32]byte
}

// offer lets a page take part. It holds no more than most of them.
func (s *sample) offer(r row, sourceHash [32]byte) {
	if s.most <= 0 {
		return
	}
	p := pick{r, sha256.Sum256(append(sourceHash[:], r.url...))}
	at, _ := slices.BinarySearchFunc(s.picked, p, func(a, b pick) int { return bytes.Compare(a.lot[:], b.lot[:]) })
	s.picked = slices.Insert(s.picked, at, p)
	s.picked = s.picked[:min(len(s.picked), s.most)]
}

// holdSample fetches the pages of the sample, and tells what their snapshots have
// wrong.
func (v *view) holdSample(ctx context.Context) error {
	slices.SortFunc(v.sample.picked, func(a, b pick) int { return cmp.Compare(a.row.url, b.row.url) })
	var told []string
	for _, p := range v.sample.picked {
		e, why, err := v.entry(p.row)
		if err != nil {
			return err
		}
		if why != "" {
			continue
		}
		if err := v.contradiction(ctx, &e); err != nil {
			told = append(told, fmt.Sprintf("%.200q does not bear its snapshot out: %v", e.URL, err))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	v.s.currentMu.Lock()
	defer v.s.currentMu.Unlock()
	v.s.told.Warnings = append(v.s.told.Warnings, told...)
	return nil
}

// The bounds of what counts as the same story.
const (
	minWords = 20 // of a snapshot that is compared by its words
	minShare = 2  // one in how many of them has to be on the page
)

var errOtherWords = errors.New("most words of the snapshot are not on the page")

// contradiction returns what speaks against an entry's snapshot: that the page
// has another checksum than the entry says, or other words than the snapshot.
func (v *view) contradiction(ctx context.Context, e *Entry) error {
	b, err := v.fetch(ctx, e, validators{}, false)
	if err != nil {
		return err
	}
	if err := e.check(b); err != nil {
		return err
	}
	read, err := site.FromHTML(b.html, e.URL, v.s.config.Now(), v.s.config.Rules)
	if err != nil {
		return err
	}
	d, err := tct.Decode(read.Payload)
	if err != nil {
		return err
	}
	title, _, content := said(e.Snapshot)
	there, wanted := wordsOf(d.Title+" "+d.Content), wordsOf(title+" "+content)
	found := 0
	for word := range wanted {
		if there[word] {
			found++
		}
	}
	if len(wanted) >= minWords && found*minShare < len(wanted) {
		return fmt.Errorf("%w (%d of %d are)", errOtherWords, found, len(wanted))
	}
	return nil
}

// wordsOf are the words of a text, in lower case, each once.
func wordsOf(text string) map[string]bool {
	all := make(map[string]bool)
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		all[word] = true
	}
	return all
}
