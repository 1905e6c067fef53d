package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
)

// shownAgreements is how many of the agreements the page lists, those with the
// newest receipts first; "agreements" lists all.
const shownAgreements = 50

// page is what people see of the indexer.
func (d *daemon) page() monitor.Page {
	f, err := d.figures()
	now := time.Now()
	p := monitor.Page{Program: "indexerd", Identity: string(d.x.Identity()), Made: now, Report: d.watch.judge(f, err)}
	if err != nil || f.Disk.Stalled != nil {
		return p // nothing that can be read would be of now
	}
	s, err := d.x.Status()
	if err != nil {
		p.Report.Fail("store_failed", "%v", err)
		return p
	}
	p.Cards = []monitor.Card{
		{Figure: monitor.Number(float64(f.Sessions)), Text: plural.Of(f.Sessions, "session", "sessions") + " open"},
		{Figure: monitor.Number(float64(s.Pages)), Text: plural.Of(s.Pages, "page", "pages") + " held, of " + monitor.Number(float64(s.Publishers)) + " " + plural.Of(s.Publishers, "publisher", "publishers")},
		{Figure: monitor.Number(float64(f.Log.Released)), Text: plural.Of(f.Log.Released, "entry", "entries") + " in the log"},
		{Figure: monitor.Octets(s.PayloadBytes), Text: "of payload"},
	}
	h := d.watch.history
	p.Charts = []monitor.Chart{
		h.Rate("Pages taken in", "pages", samplePages), h.Rate("Payload taken in", "octets", samplePayload),
		h.Rate("Log growth", "entries", sampleEntries), h.Level("Waiting to be committed", "proposals", sampleQueue),
		h.Level("Sessions", "sessions", sampleSessions), h.Level("Feed lag", "changes", sampleLag),
	}
	p.Sections = []monitor.Section{
		d.agreementsSection(now), happenings(d.x.RecentReceipts(), d.x.RecentRefusals(), now), logSection(&f, s, now), witnessSection(&f, now),
		{ID: "identity", Title: "Certificate and trust", Facts: monitor.IdentityFacts(f.Certificate, f.Trust, now)},
		{ID: "store", Title: "Store", Facts: monitor.StoreFacts(f.Store, f.Disk)},
		audit.Section(d.dir, now),
	}
	return p
}

func (d *daemon) agreementsSection(now time.Time) monitor.Section {
	s := monitor.Section{ID: "agreements", Title: "Agreements", Empty: "There are none yet: a publisher announces its grants in its first session."}
	all, err := d.x.Agreements()
	if err != nil {
		s.Empty = "They could not be read; the log says why."
		return s
	}
	slices.SortStableFunc(all, func(a, b indexer.Agreement) int { return b.LastReceiptAt.Compare(a.LastReceiptAt.Time) })
	if n := len(all); n > shownAgreements {
		s.Intro = fmt.Sprintf("The %d with the newest receipts, of %s. The command agreements lists all.", shownAgreements, monitor.Number(float64(n)))
		all = all[:shownAgreements]
	}
	for _, a := range all {
		last := "none yet"
		if !a.LastReceiptAt.IsZero() {
			last = monitor.Ago(now.Sub(a.LastReceiptAt.Time)) + " ago"
		}
		session := "no"
		if d.x.Connected(a.Publisher) {
			session = "yes"
		}
		s.Agreements = append(s.Agreements, monitor.Agreement{
			Title: a.Collection, With: string(a.Publisher), State: a.Standing, Good: a.Standing == "live", Words: a.Words,
			Facts: []monitor.Fact{
				{Name: "Pages", Value: monitor.Number(float64(a.Pages))}, {Name: "Revision", Value: monitor.Number(float64(a.Revision))},
				{Name: "Receipts", Value: monitor.Number(float64(a.Receipts))}, {Name: "Last receipt", Value: last},
				{Name: "Session open", Value: session}, {Name: "Grant ends", Value: monitor.Moment(a.ExpiresAt.Time)},
			},
		})
	}
	return s
}

// happenings are the newest receipts and refusals, the newest first.
func happenings(receipts, refusals []indexer.Happening, now time.Time) monitor.Section {
	s := monitor.Section{ID: "recent", Title: "Recent receipts and refusals", Empty: "There were none since the start."}
	given := monitor.Table{Caption: "Receipts", Heads: []string{"When", "Publisher", "Collection", "Pages", "Receipt"}}
	for _, h := range slices.Backward(receipts) {
		given.Rows = append(given.Rows, []string{
			monitor.Ago(now.Sub(h.At.Time)) + " ago", string(h.Publisher), h.Collection, monitor.Number(float64(h.Pages)), short(h.Receipt.String()),
		})
	}
	refused := monitor.Table{Caption: "Refusals", Heads: []string{"When", "Publisher", "Collection", "What", "Reason"}}
	for _, h := range slices.Backward(refusals) {
		who := string(h.Publisher)
		if who == "" {
			who = "somebody unknown"
		}
		refused.Rows = append(refused.Rows, []string{monitor.Ago(now.Sub(h.At.Time)) + " ago", who, h.Collection, h.What, h.Reason})
	}
	for _, t := range []monitor.Table{given, refused} {
		if len(t.Rows) > 0 {
			s.Tables = append(s.Tables, t)
		}
	}
	return s
}

// short is the beginning of a hash.
func short(hash string) string {
	digits := strings.TrimPrefix(hash, "sha256:")
	return digits[:min(12, len(digits))] + "…"
}

func logSection(f *indexer.Figures, s indexer.Status, now time.Time) monitor.Section {
	mean := "nothing committed yet"
	if f.Log.Sync.Count > 0 {
		mean = fmt.Sprintf("%.1f ms on average", 1000*f.Log.Sync.Sum/float64(f.Log.Sync.Count))
	}
	return monitor.Section{ID: "log", Title: "Transparency log", Facts: []monitor.Fact{
		{Name: "Name", Value: s.LogOrigin, Code: true}, {Name: "Root", Value: s.Root.String(), Code: true},
		{Name: "Entries", Value: monitor.Number(float64(f.Log.Released)) + ", " + monitor.Number(float64(f.Log.Published)) + " of them published"},
		{Name: "Last checkpoint", Value: monitor.Moment(f.Log.PublishedAt) + ", " + monitor.Ago(now.Sub(f.Log.PublishedAt)) + " ago"},
		{Name: "Write and fsync", Value: mean}, {Name: "Waiting", Value: monitor.Number(float64(f.Log.Queued)) + " proposals"},
	}}
}

func witnessSection(f *indexer.Figures, now time.Time) monitor.Section {
	s := monitor.Section{ID: "witnesses", Title: "Witnesses", Empty: "Nobody cosigns what this log publishes: no witnesses are configured."}
	t := monitor.Table{Caption: "What each has cosigned", Heads: []string{"Witness", "Entries", "Behind by", "Last cosignature", "Last failure"}}
	for _, w := range f.Witnesses {
		last, failure := "none since the start", "none since then"
		if !w.CosignedAt.IsZero() {
			last = monitor.Ago(now.Sub(w.CosignedAt)) + " ago"
		}
		if w.LastError != nil {
			failure = string(w.LastError.Reason)
		}
		behind := monitor.Number(max(0, float64(f.Log.Published)-float64(w.Size)))
		t.Rows = append(t.Rows, []string{w.Name, monitor.Number(float64(w.Size)), behind, last, failure})
	}
	if len(t.Rows) > 0 {
		s.Tables = []monitor.Table{t}
	}
	return s
}
