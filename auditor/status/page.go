package status

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/sheet"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// maxRows is the most rows of one table of the page; the JSON has all.
const maxRows = 500

// chartWidth and laneHeight are the units in which figures are drawn. They are
// stretched to the width of the page, so that nothing in them is text.
const (
	chartWidth = 1000
	laneHeight = 40
)

// A page is what the template shows.
type page struct {
	*Report
	Style    template.CSS
	Good     bool
	Headline string
	Figures  []figure
	Lanes    []lane // of the timeline
	Charts   []lane // pages over time
	From, To envelope.Time
	Rows     []Event
	Left     int // events that have no row
	Cut      int // spans without anything
	Busy     []Span
	Names    []translog.Decision
	Kinds    []string
}

// A figure is a number with what it counts.
type figure struct{ Number, Text string }

// A lane is one strip of a figure: its name, what it shows in words, and marks.
type lane struct {
	Class, Name, Words string
	Marks              []mark
}

// A mark is a rectangle in a lane.
type mark struct{ X, Y, W, H float64 }

// WriteHTML writes the report as one page that stands by itself: it loads nothing
// and runs no script.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(template.FuncMap{
		"human": human, "lasted": func(s *int64) string { return lasted(*s) }, "entries": entriesOf, "decided": decided, "number": number, "pages": pagesOf,
	}).Parse(pageHTML)
	if err != nil {
		return err
	}
	return t.Execute(w, r.page())
}

func (r *Report) page() *page {
	p := &page{Report: r, Style: template.CSS(sheet.Base + pageCSS), Good: r.OK(), Headline: r.State.Words(), Names: decisions(), Kinds: slices.Sorted(maps.Keys(r.Totals))}
	p.Figures = append(p.Figures, figure{number(r.Entries), "entries under the grant, of " + number(r.Checked) + " that were verified"})
	if r.Held != nil {
		p.Figures = append(p.Figures, figure{number(*r.Held), "pages at most are held under it, by what the log says"})
	}
	for _, w := range r.Revocations {
		switch {
		case w.Deletion != nil && w.Deletion.After != nil:
			p.Figures = append(p.Figures, figure{lasted(*w.Deletion.After), "from a revocation to its deletion"})
		case w.Ack != nil && w.Ack.After != nil:
			p.Figures = append(p.Figures, figure{lasted(*w.Ack.After), "from a revocation to its acknowledgement"})
		case w.DeletionAfterAck != nil:
			p.Figures = append(p.Figures, figure{lasted(*w.DeletionAfterAck), "from the acknowledgement of a revocation to the deletion"})
		}
		if len(p.Figures) == 4 {
			break
		}
	}
	if len(r.OverTime) > 0 {
		p.From, p.To = r.OverTime[0].From, r.OverTime[len(r.OverTime)-1].To
		p.Lanes, p.Charts = r.timeline(p.From, p.To), r.charts()
	}
	for _, s := range r.OverTime {
		if len(s.Decided) > 0 {
			p.Busy = append(p.Busy, s)
		}
	}
	p.Rows = r.Events
	if n := len(r.Events); n > maxRows {
		p.Rows, p.Left = r.Events[n-maxRows:], n-maxRows
	}
	return p
}

// timeline has a lane for each kind of decision, with a mark for each entry.
// Marks that would lie on one another are drawn once.
func (r *Report) timeline(from, to envelope.Time) []lane {
	whole := to.Sub(from.Time).Seconds()
	var all []lane
	for _, d := range decisions() {
		l := lane{Class: string(d), Name: decided(d)}
		n, last := 0, -1.0
		for _, e := range r.Events {
			if e.Decision != d {
				continue
			}
			n++
			x := float64(int(e.At.Sub(from.Time).Seconds() / whole * (chartWidth - 4)))
			if x != last && x >= 0 && x <= chartWidth {
				l.Marks = append(l.Marks, mark{X: x, Y: 4, W: 4, H: laneHeight - 8})
			}
			last = x
		}
		if n == 0 {
			continue
		}
		l.Words = fmt.Sprintf("%s: %s", l.Name, entriesOf(uint64(n)))
		all = append(all, l)
	}
	return all
}

// charts has a lane for each decision, with a bar for each span. All have one
// scale, which the words of each say.
func (r *Report) charts() []lane {
	most := uint64(1)
	for _, s := range r.OverTime {
		for _, t := range s.Decided {
			most = max(most, t.Pages)
		}
	}
	step := float64(chartWidth) / float64(len(r.OverTime))
	var all []lane
	for _, d := range decisions() {
		l := lane{Class: string(d), Name: decided(d)}
		sum, top, seen := uint64(0), uint64(0), false
		for i, s := range r.OverTime {
			t, ok := s.Decided[d]
			if !ok {
				continue
			}
			seen = true
			sum, top = sum+t.Pages, max(top, t.Pages)
			h := max(1, float64(t.Pages)/float64(most)*(laneHeight-2))
			l.Marks = append(l.Marks, mark{X: float64(i) * step, Y: laneHeight - h, W: max(step*0.9, 2), H: h})
		}
		if !seen {
			continue
		}
		l.Words = fmt.Sprintf("%s: %s together, at most %s at a time", l.Name, pagesOf(sum), number(top))
		all = append(all, l)
	}
	return all
}

// decided is a decision for people.
func decided(d translog.Decision) string {
	return map[translog.Decision]string{
		translog.Include: "Taken in", translog.Update: "Updated", translog.Exclude: "Refused or left out",
		translog.RevokeAck: "Stopped", translog.DeleteAck: "Deleted",
	}[d]
}

// human is a time for people, in UTC.
func human(t envelope.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 Jan 2006, " + time.TimeOnly + " UTC")
}

// number groups the digits of n by three.
func number(n uint64) string {
	s := fmt.Sprint(n)
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, parts...), "\u202f")
}
