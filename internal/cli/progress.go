package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// How often progress is shown: a bar that is drawn over, or a line.
const (
	barEvery  = 200 * time.Millisecond
	lineEvery = 10 * time.Second
	barWidth  = 16
	shortBar  = 4 // where the terminal is too narrow for all that stands behind it
)

// A Step is how far a long command has come. Total is 0 if nobody knows it, and
// Octets what has been read or, of a push, written to the connection. Waiting says
// that all that can be done is, and that the other side has not answered yet.
type Step struct {
	What        string
	Done, Total int64
	Octets      int64
	Waiting     bool
}

// A Progress shows steps: on a terminal as one line that is drawn over, elsewhere
// as a line now and then, and not at all if a command is done soon. What else is
// written to the terminal meanwhile, such as a log, is written through it. It is
// safe for concurrent use.
type Progress struct {
	w        io.Writer
	terminal bool
	columns  func() int // of the terminal; 0 if it does not say
	now      func() time.Time

	// drawingMu guards what is below, and w.
	drawingMu sync.Mutex

	what  string // of the step that is shown
	first Step   // when what began
	began time.Time
	shown time.Time
	drawn int // columns that are drawn over
}

// NewProgress makes one that writes to w.
func NewProgress(w io.Writer) *Progress {
	return &Progress{w: w, terminal: IsTerminal(w), columns: func() int { return columnsOf(w) }, now: time.Now}
}

// columnsOf is how wide a terminal is at the moment.
func columnsOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// IsTerminal reports whether somebody reads what is written to w as it comes.
func IsTerminal(w io.Writer) bool {
	if p, ok := w.(*Progress); ok {
		return p.terminal
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Show shows a step, unless another was shown a moment ago.
func (p *Progress) Show(s Step) {
	p.drawingMu.Lock()
	defer p.drawingMu.Unlock()
	now := p.now()
	if s.What != p.what {
		p.clear()
		p.what, p.first, p.began, p.shown = s.What, s, now, now
		return
	}
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	if now.Sub(p.shown) < every {
		return
	}
	p.shown = now
	text := p.text(s, now.Sub(p.began), barWidth)
	if !p.terminal {
		fmt.Fprintln(p.w, text)
		return
	}
	// What reaches the last column could begin a line that is not drawn over.
	if most := p.columns() - 1; most > 0 {
		p.drawn = min(p.drawn, most) // the window may be narrower than it was
		if len([]rune(text)) > most {
			text = shortened(p.text(s, now.Sub(p.began), shortBar), most)
		}
	}
	width := len([]rune(text))
	fmt.Fprintf(p.w, "\r%s%s", text, strings.Repeat(" ", max(0, p.drawn-width)))
	p.drawn = width
}

// shortened is text of so many columns at the most, without the parts between commas
// that do not fit.
func shortened(text string, most int) string {
	all := []rune(text)
	if len(all) <= most {
		return text
	}
	if i := strings.LastIndex(string(all[:min(len(all), most+2)]), ", "); i > 0 {
		return text[:i]
	}
	return string(all[:most])
}

// Write writes whole lines where the bar was, which comes back below them with the
// next step.
func (p *Progress) Write(lines []byte) (int, error) {
	p.drawingMu.Lock()
	defer p.drawingMu.Unlock()
	p.clear()
	return p.w.Write(lines)
}

// Clear takes the bar away, for what is printed next.
func (p *Progress) Clear() {
	p.drawingMu.Lock()
	defer p.drawingMu.Unlock()
	p.clear()
}

func (p *Progress) clear() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.drawn))
		p.drawn = 0
	}
}

func (p *Progress) text(s Step, took time.Duration, bar int) string {
	var b strings.Builder
	b.WriteString(s.What)
	if s.Total > 0 {
		if p.terminal {
			full := int(min(s.Done, s.Total) * int64(bar) / s.Total)
			fmt.Fprintf(&b, " [%s%s]", strings.Repeat("#", full), strings.Repeat(".", bar-full))
		}
		fmt.Fprintf(&b, " %d of %d pages", s.Done, s.Total)
	} else {
		fmt.Fprintf(&b, " %d pages", s.Done)
	}
	seconds, rate := took.Seconds(), 0.0
	if seconds > 0 {
		rate = float64(s.Done-p.first.Done) / seconds
	}
	// What is left stands before the rates, which do not fit on a narrow terminal.
	switch {
	case s.Waiting && s.Total > s.Done:
		b.WriteString(", waiting for the answer")
	case s.Total > s.Done && rate > 0:
		left := time.Duration(float64(s.Total-s.Done) / rate * float64(time.Second))
		fmt.Fprintf(&b, ", %s left", left.Round(time.Second))
	}
	fmt.Fprintf(&b, ", %s", Octets(s.Octets))
	if seconds > 0 {
		fmt.Fprintf(&b, ", %.0f pages/s, %s/s", rate, Octets(int64(float64(s.Octets-p.first.Octets)/seconds)))
	}
	return b.String()
}

// Octets is a number of octets for people, in decimal units.
func Octets(n int64) string {
	switch {
	case n < 10_000:
		return fmt.Sprintf("%d B", n)
	case n < 10_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	case n < 10_000_000_000:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}
