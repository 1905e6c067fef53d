package rbt

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxProblems is how many problems a report tells; the rest are counted, as they
// are when those before have maxReport octets together.
const (
	MaxProblems = 10_000
	maxReport   = 16 << 20
)

// A Report tells what a traversal did (9.3).
type Report struct {
	Manifest  string    `json:"manifest"`
	Started   time.Time `json:"started"`
	Completed time.Time `json:"completed"`
	Processed int64     `json:"entriesProcessed"`
	Skipped   int64     `json:"entriesSkipped"`
	Problems  []Problem `json:"errors"`
	// More counts problems beyond those that are told, and Warnings tell what was odd.
	More     int64    `json:"x-uzpif-moreErrors,omitzero"`
	Warnings []string `json:"x-uzpif-warnings,omitempty"`

	octets int // of Problems, about
}

// A Problem is one thing that went wrong, with all that was tried.
type Problem struct {
	Category Category  `json:"category"`
	EntryID  string    `json:"entryId,omitzero"`
	Href     string    `json:"href,omitzero"`
	Attempts []Attempt `json:"attempts"`
}

// An Attempt is one try at one root. No credential stands in it.
type Attempt struct {
	Root   string `json:"root"` // "git" or "https"
	Error  string `json:"error,omitzero"`
	Status int    `json:"status,omitzero"` // of HTTP
}

// Add notes a problem.
func (r *Report) Add(p Problem) {
	octets := 200 + len(p.EntryID) + len(p.Href)
	for _, a := range p.Attempts {
		octets += 100 + len(a.Error)
	}
	if len(r.Problems) >= MaxProblems || r.octets+octets > maxReport {
		r.More++
		return
	}
	r.octets += octets
	r.Problems = append(r.Problems, p)
}

// Marshal writes the report as the text shows it, in UTC and whole seconds.
func (r *Report) Marshal() ([]byte, error) {
	c := *r
	c.Started, c.Completed = c.Started.UTC().Truncate(time.Second), c.Completed.UTC().Truncate(time.Second)
	var b bytes.Buffer
	err := json.MarshalWrite(&b, map[string]*Report{"traversal": &c}, jsontext.WithIndent("  "))
	b.WriteByte('\n')
	return b.Bytes(), err
}
