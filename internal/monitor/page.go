package monitor

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/sheet"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// A Page is what people see of a daemon. Its strings are shown as text, whatever
// is in them.
type Page struct {
	Program  string // "publisherd" or "indexerd"
	Identity string
	Made     time.Time
	Report   Report
	Cards    []Card
	Charts   []Chart
	Sections []Section
}

// A Card is a figure with what it counts.
type Card struct{ Figure, Text string }

// A Section is a part of the page under its own heading. What it has no use for
// is empty.
type Section struct {
	ID, Title, Intro string
	Agreements       []Agreement
	Tables           []Table
	Facts            []Fact
	Empty            string // said when there is nothing of all that
}

// Nothing reports whether the section has nothing to show.
func (s Section) Nothing() bool {
	return len(s.Agreements) == 0 && len(s.Facts) == 0 && len(s.Tables) == 0
}

// An Agreement is a grant in words, and how far the two have come with it.
type Agreement struct {
	Title, With string
	State       string
	Good        bool // of State
	Words       []string
	Facts       []Fact
}

// A Fact is one value with its name. Code is one to be copied.
type Fact struct {
	Name, Value string
	Code        bool
}

// A Table has a row for each of some things; the first cell of a row names it.
type Table struct {
	Caption string
	Heads   []string
	Rows    [][]string
}

// Arguments are the words of a command line with options, which are not to be parted
// at their hyphens; nil of anything else.
func (f Fact) Arguments() []string {
	if !strings.Contains(f.Value, " --") {
		return nil
	}
	return strings.Fields(f.Value)
}

// Cells are the cells of a row behind the first, each with the head above it.
func (t Table) Cells(row []string) []Fact {
	cells := make([]Fact, 0, len(row))
	for i := 1; i < len(row) && i < len(t.Heads); i++ {
		cells = append(cells, Fact{Name: t.Heads[i], Value: row[i]})
	}
	return cells
}

// shown is what the template is given.
type shown struct {
	Page
	Style  template.CSS
	Script template.JS
	Time   string
}

// servePage makes the page anew each time.
func (a *Admin) servePage(w http.ResponseWriter, _ *http.Request) {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	style := sheet.Base + pageCSS
	p := a.Page()
	var b bytes.Buffer
	if err := t.Execute(&b, shown{p, template.CSS(style), template.JS(pageJS), Moment(p.Made)}); err != nil {
		a.Log.Error("status page", "error", err)
		http.Error(w, "the page could not be made; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src '"+sheet.Hash(style)+"'; script-src '"+sheet.Hash(pageJS)+
		"'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	w.Write(b.Bytes())
}
