package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/audit"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/internal/plural"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// page is what people see of the publisher.
func (d *daemon) page() monitor.Page {
	f, err := d.watch.read()
	now := time.Now()
	p := monitor.Page{Program: "publisherd", Identity: string(d.p.Identity()), Made: now, Report: d.watch.judge(&f, err)}
	if err != nil || f.Disk.Stalled != nil {
		return p // nothing that can be read would be of now
	}
	var backlog, pages, open uint64
	for _, s := range f.Status.Indexers {
		if s.State == "in-force" {
			backlog += s.Backlog
		}
	}
	for _, c := range f.Status.Collections {
		pages += c.Pages
	}
	for _, x := range f.Pulse.Peers {
		if !x.Open.IsZero() {
			open++
		}
	}
	p.Cards = []monitor.Card{
		{Figure: monitor.Number(float64(open)), Text: plural.Of(open, "session", "sessions") + " open, of " + monitor.Number(float64(len(f.Pulse.Peers))) + " " + plural.Of(len(f.Pulse.Peers), "indexer", "indexers")},
		{Figure: monitor.Number(float64(backlog)), Text: plural.Of(backlog, "revision", "revisions") + " in the outboxes"},
		{Figure: monitor.Number(float64(pages)), Text: plural.Of(pages, "page", "pages") + " in " + monitor.Number(float64(len(f.Status.Collections))) + " " + plural.Of(len(f.Status.Collections), "collection", "collections")},
		{Figure: monitor.Octets(f.Store.DiskBytes), Text: "of journal and receipts on disk"},
	}
	h := d.watch.history
	p.Charts = []monitor.Chart{
		h.Level("Outboxes", "revisions", sampleBacklog), h.Rate("Pages acknowledged", "pages", samplePages),
		h.Rate("Sent", "octets", sampleOut), h.Rate("Received", "octets", sampleIn), h.Level("Sessions", "sessions", sampleSessions),
	}
	p.Sections = []monitor.Section{
		d.agreementsSection(&f, now), collectionsSection(&f, now), happenings(d.p.RecentReceipts(), d.p.RecentRefusals(), now), logsSection(&f, now),
		{ID: "identity", Title: "Certificate and trust", Facts: monitor.IdentityFacts(f.Status.Certificate, f.Status.Trust, now)},
		{ID: "store", Title: "Store", Facts: monitor.StoreFacts(f.Store, f.Disk)},
		audit.Section(d.dir, now),
	}
	return p
}

func (d *daemon) agreementsSection(f *figures, now time.Time) monitor.Section {
	s := monitor.Section{ID: "agreements", Title: "Indexers and grants", Empty: "There are none yet: trust an indexer, and issue a grant."}
	words := d.p.GrantWords()
	open := make(map[envelope.Name]string)
	for _, p := range f.Pulse.Peers {
		switch {
		case !p.Open.IsZero():
			open[p.Indexer] = "open for " + monitor.Ago(now.Sub(p.Open))
		case p.LastError != "":
			open[p.Indexer] = "none for " + monitor.Ago(now.Sub(p.Closed))
			if p.Next.After(now) {
				open[p.Indexer] += ", tried again in " + monitor.Ago(p.Next.Sub(now))
			}
			open[p.Indexer] += ": " + p.LastError
		}
	}
	for i := range f.Status.Indexers {
		x := &f.Status.Indexers[i]
		session := open[x.Identity]
		if session == "" {
			session = "none"
		}
		a := monitor.Agreement{Title: x.Collection, With: string(x.Identity), State: strings.ReplaceAll(x.State, "-", " "), Good: x.State == "in-force" && x.Alarm == nil,
			Words: words[x.Series],
			Facts: []monitor.Fact{
				{Name: "Session", Value: session}, {Name: "Outbox", Value: monitor.Number(float64(x.Backlog)) + " revisions"},
				{Name: "Pages there", Value: monitor.Number(float64(x.Pages))}, {Name: "Grant", Value: x.Expiry},
			}}
		if x.LastReceipt != "" {
			a.Facts = append(a.Facts, monitor.Fact{Name: "Last receipt", Value: short(x.LastReceipt), Code: true})
		}
		if o := f.outboxes[x.Series]; o.stuck > time.Minute {
			a.Facts = append(a.Facts, monitor.Fact{Name: "Unmoved for", Value: monitor.Ago(o.stuck)})
		}
		if !x.LimitedUntil.IsZero() {
			a.Facts = append(a.Facts, monitor.Fact{Name: "Limit", Value: "what the grant allows is used up; the rest goes from " + monitor.Moment(x.LimitedUntil.Time) + " on"})
		}
		if x.Held != nil {
			a.Facts = append(a.Facts, monitor.Fact{Name: "Over quota", Value: "since " + monitor.Moment(x.Held.Since.Time) + ": " + x.Held.Detail})
		}
		if r := x.Refused; r != nil {
			a.Facts = append(a.Facts, monitor.Fact{Name: "Refused pages", Value: monitor.Number(float64(r.Count)) + ": " + reasonsOf(r)})
		}
		if x.Alarm != nil {
			a.Facts = append(a.Facts, monitor.Fact{Name: "Alarm", Value: x.Alarm.Reason + ": " + x.Alarm.Detail})
		}
		for _, r := range x.Revocations {
			a.Facts = append(a.Facts, monitor.Fact{Name: "Revocation", Value: r.State + ", " + monitor.Moment(r.IssuedAt.Time)})
		}
		s.Agreements = append(s.Agreements, a)
	}
	return s
}

func collectionsSection(f *figures, now time.Time) monitor.Section {
	s := monitor.Section{ID: "collections", Title: "Collections", Empty: "There are none yet: add a source."}
	scans := make(map[string]publisher.ScanFigures)
	for _, x := range f.Pulse.Scans {
		scans[x.Collection] = x
	}
	t := monitor.Table{Caption: "What the journals hold", Heads: []string{"Collection", "Pages", "Revision", "Last good scan", "Problem"}}
	for _, c := range f.Status.Collections {
		good, problem := "none since the start", "none"
		if x := scans[c.Name]; !x.Good.IsZero() {
			good = monitor.Ago(now.Sub(x.Good)) + " ago"
		}
		if x := scans[c.Name].Error; x != "" {
			problem = x
		}
		t.Rows = append(t.Rows, []string{c.Name, monitor.Number(float64(c.Pages)), monitor.Number(float64(c.Revision)), good, problem})
	}
	if len(t.Rows) > 0 {
		s.Tables = []monitor.Table{t}
	}
	return s
}

// happenings are the newest receipts and refusals, the newest first.
func happenings(receipts, refusals []publisher.Happening, now time.Time) monitor.Section {
	s := monitor.Section{ID: "recent", Title: "Recent receipts and refusals", Empty: "There were none since the start."}
	stored := monitor.Table{Caption: "Receipts", Heads: []string{"When", "Indexer", "Collection", "Pages", "Receipt"}}
	for _, h := range slices.Backward(receipts) {
		stored.Rows = append(stored.Rows, []string{
			monitor.Ago(now.Sub(h.At.Time)) + " ago", string(h.Indexer), h.Collection, monitor.Number(float64(h.Pages)), short(h.Receipt.String()),
		})
	}
	refused := monitor.Table{Caption: "Refusals", Heads: []string{"When", "Indexer", "Collection", "Reason"}}
	for _, h := range slices.Backward(refusals) {
		refused.Rows = append(refused.Rows, []string{monitor.Ago(now.Sub(h.At.Time)) + " ago", string(h.Indexer), h.Collection, h.Reason})
	}
	for _, t := range []monitor.Table{stored, refused} {
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

// logsSection is how the logs of the indexers stand, each as it was last seen.
func logsSection(f *figures, now time.Time) monitor.Section {
	s := monitor.Section{ID: "logs", Title: "Logs of the indexers", Empty: "None was seen yet."}
	t := monitor.Table{Caption: "What was verified last", Heads: []string{"Indexer", "Entries", "Verified", "Beside the public log"}}
	seen := make(map[envelope.Name]bool)
	for i := range f.Status.Indexers {
		x := &f.Status.Indexers[i]
		if seen[x.Identity] || x.LastCheckpoint == 0 {
			continue
		}
		seen[x.Identity] = true
		verified, public := "before the start", "not compared"
		for _, p := range f.Pulse.Peers {
			if p.Indexer == x.Identity && !p.TreeAt.IsZero() {
				verified = monitor.Ago(now.Sub(p.TreeAt)) + " ago"
			}
		}
		if x.Log != nil {
			public = fmt.Sprintf("%s, %s", x.Log.State, monitor.Moment(x.Log.At.Time))
		}
		t.Rows = append(t.Rows, []string{string(x.Identity), monitor.Number(float64(x.LastCheckpoint)), verified, public})
	}
	if len(t.Rows) > 0 {
		s.Tables = []monitor.Table{t}
	}
	return s
}
