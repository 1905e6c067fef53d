package arc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// deltaFolder is where deltas are, one for each day in UTC.
const deltaFolder = "arc-sitemap-deltas/"

// maxDeltaDays is for how many days deltas are asked for, and kept.
const maxDeltaDays = 30

// deltaFile is the name of a day's delta below the folder of the sitemap.
func deltaFile(day time.Time) string { return deltaFolder + day.UTC().Format("2006-01-02") + ".json" }

// isDeltaFile recognises the names of deltas, and returns their day.
func isDeltaFile(name string) (day time.Time, ok bool) {
	date, isDelta := strings.CutPrefix(name, deltaFolder)
	date, isJSON := strings.CutSuffix(date, ".json")
	day, err := time.Parse("2006-01-02", date)
	return day, isDelta && isJSON && err == nil
}

// deltas brings the mirror up to date by deltas, a day after the other from that
// of the state that is held. It reports whether that is done: a delta says that it
// counts from that state on or from one before, and the last reaches the state
// that is now. Where one is missing, does not say so, or holds an entry that
// cannot be used, the sitemap is read as a whole instead, and so it is each day.
func (r *refresh) deltas(ctx context.Context) (done bool, err error) {
	reached := r.state.Head.Generated
	if age := r.now.Sub(r.state.Full); age < 0 || age >= recheck {
		return false, nil
	}
	folder := r.home[:strings.LastIndexByte(r.home, '/')+1]
	if first, ok := strings.CutSuffix(folder, "/.well-known/"); ok {
		folder = first + "/"
	}
	today := r.now.UTC().Truncate(24 * time.Hour)
	first := reached.UTC().Truncate(24 * time.Hour)
	if first.After(today) || today.Sub(first) > maxDeltaDays*24*time.Hour {
		return false, nil
	}
	held := make(map[string]heldDelta)
	for day := first; !day.After(today); day = day.Add(24 * time.Hour) {
		u := folder + deltaFile(day)
		d, found, err := r.delta(ctx, u)
		if err != nil {
			if ctx.Err() != nil {
				return false, err
			}
			r.warn("delta %.200s is passed over: %v", u, err)
			return false, nil
		}
		if found {
			held[u] = d
			done = true
		}
	}
	if !done {
		return false, nil
	}
	r.state.Deltas = held
	if r.draft == nil { // all of them were applied before
		r.m.state.Deltas = held
		return true, r.m.save()
	}
	return true, r.adopt()
}

// delta fetches one delta and applies it, unless it is not there, or was applied
// before.
func (r *refresh) delta(ctx context.Context, u string) (d heldDelta, found bool, err error) {
	old, had := r.state.Deltas[u]
	response, err := r.s.config.Client.Get(ctx, u, fetch.Conditions{ETag: old.ETag, LastModified: old.Modified, Accept: "application/json"})
	var status *fetch.StatusError
	if errors.As(err, &status) && (status.Code == http.StatusNotFound || status.Code == http.StatusGone) {
		return d, false, nil
	}
	if err != nil {
		return d, false, err
	}
	defer response.Body.Close()
	if response.NotModified && had {
		return old, true, nil
	}
	from, err := newDraft(r.m.dir)
	if err != nil {
		return d, false, err
	}
	sum, err := ReadSitemap(response.Body, r.s.config.Limits, Visitor{
		Entry: from.add,
		Skip:  func(n int, _ string, reason error) error { return fmt.Errorf("entry %d: %w", n, reason) },
	})
	if err == nil {
		err = from.out.Flush()
	}
	if err == nil {
		err = r.fits(&sum)
	}
	if err != nil {
		from.close()
		return d, false, err
	}
	d = heldDelta{validatorsOf(response), sum.Generated}
	if !sum.Generated.After(r.state.Head.Generated) {
		from.close()
		return d, true, nil
	}
	return d, true, r.apply(from, sum)
}

// fits checks that a delta follows on what is held, and is of the same site.
func (r *refresh) fits(sum *Summary) error {
	reached := r.state.Head.Generated
	switch {
	case sum.Since.IsZero():
		return errors.New("it does not say from which state on it counts")
	case sum.Since.After(reached):
		return fmt.Errorf("it counts from %s on, and %s is held", formatTime(sum.Since), formatTime(reached))
	case sum.Site != r.state.Head.Site:
		return fmt.Errorf("it is of another site, %.200q", sum.Site)
	}
	return nil
}

// apply makes a draft of what is held with a delta's entries in it.
func (r *refresh) apply(from *draft, sum Summary) error {
	changed := make(map[string]draftRow)
	for _, c := range from.rows {
		if old, is := changed[c.url]; !is || c.withdrawn && !old.withdrawn {
			changed[c.url] = c
		}
	}
	if r.draft != nil {
		// What an earlier delta has changed and this one has not is in its draft.
		return r.mergeDraft(changed, from, sum)
	}
	if err := r.merge(changed, from); err != nil {
		from.close()
		return err
	}
	r.state.Head.Generated = sum.Generated
	return nil
}

// mergeDraft applies a delta to the draft that another one left.
func (r *refresh) mergeDraft(changed map[string]draftRow, from *draft, sum Summary) error {
	defer from.close()
	kept := r.draft.rows[:0]
	for _, row := range r.draft.rows {
		if _, is := changed[row.url]; !is {
			kept = append(kept, row)
		}
	}
	r.draft.rows = kept
	for url, c := range changed {
		line := make([]byte, c.length)
		if _, err := from.spool.ReadAt(line, c.offset); err != nil {
			return err
		}
		if err := r.draft.put(url, line, c.withdrawn); err != nil {
			return err
		}
	}
	r.state.Head.Generated = sum.Generated
	return nil
}
