package monitor

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// The units that a chart is drawn in. It is stretched to the width that there is,
// so that nothing in it is text.
const (
	chartWidth  = 720
	chartHeight = 120
	chartPoints = 180 // at most; of samples that fall on one point the largest is drawn
)

// A Chart is one figure over the last hour.
type Chart struct {
	Title string
	Words string // what it shows, for who does not see it
	Top   string // what the upper edge stands for
	Now   string // with "a second" if it is a rate
	Span  string // how far back it goes
	Line  string // of an SVG path; empty if there is too little to draw
	Area  string
}

// Level draws a figure that goes up and down.
func (h *History) Level(title, unit string, i int) Chart {
	return draw(title, unit, "", h.levels(i))
}

// Rate draws how fast a counter rises.
func (h *History) Rate(title, unit string, i int) Chart {
	return draw(title, unit, " a second", h.rates(i))
}

// octets is the unit of what is shown as a size.
const octets = "octets"

// draw draws points of a unit, and what stands behind it.
func draw(title, unit, per string, points []point) Chart {
	c := Chart{Title: title, Words: "nothing to show yet", Now: "–"}
	if len(points) < 2 {
		return c
	}
	first, last := points[0].at, points[len(points)-1]
	most, sum := 0.0, 0.0
	for _, p := range points {
		most, sum = max(most, p.v), sum+p.v
	}
	show, scale, unit := Number, 1.0, " "+unit
	if unit == " "+octets {
		show, scale, unit = func(v float64) string { return Octets(uint64(v)) }, scaleOf(most), ""
	}
	top := roundUp(most/scale) * scale
	if scale > 1 && top == 1000*scale {
		top = 1024 * scale // the next unit
	}
	c.Top, c.Now, c.Span = show(top), show(last.v)+per, Ago(last.at.Sub(first))
	c.Words = fmt.Sprintf("%s: now %s%s%s; in the last %s at most %s, on average %s",
		title, show(last.v), unit, per, c.Span, show(most), show(sum/float64(len(points))))
	c.Line = line(points, first, last.at, top)
	c.Area = fmt.Sprintf("%sL%d,%dL0,%dZ", c.Line, chartWidth, chartHeight, chartHeight)
	return c
}

// line is the path through the points.
func line(points []point, first, last time.Time, top float64) string {
	whole := last.Sub(first).Seconds()
	var b strings.Builder
	column, high := -1, 0.0
	put := func() {
		if column < 0 {
			return
		}
		command := "L"
		if b.Len() == 0 {
			command = "M"
		}
		fmt.Fprintf(&b, "%s%d,%.1f", command, column*chartWidth/chartPoints, chartHeight*(1-high/top))
	}
	for _, p := range points {
		at := int(math.Round(p.at.Sub(first).Seconds() / whole * chartPoints))
		if at != column {
			put()
			column, high = at, p.v
		}
		high = max(high, p.v)
	}
	put()
	return b.String()
}

// scaleOf is the largest of 1, 1 KiB, 1 MiB … that is no more than v.
func scaleOf(v float64) float64 {
	scale := 1.0
	for ; v >= scale*1024; scale *= 1024 {
	}
	return scale
}

// roundUp is the next of 1, 2, 5, 10, 20 … that is at least v.
func roundUp(v float64) float64 {
	if v <= 1 {
		return 1
	}
	scale := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5, 10} {
		if v <= m*scale {
			return m * scale
		}
	}
	return 10 * scale
}

// Number is a figure for people: its digits grouped by three, and small ones with
// what is behind the point.
func Number(v float64) string {
	switch {
	case v != v || math.IsInf(v, 0):
		return "–"
	case v != 0 && math.Abs(v) < 10 && v != math.Trunc(v):
		return fmt.Sprintf("%.1f", v)
	}
	s := fmt.Sprintf("%.0f", math.Abs(v))
	var parts []string
	for len(s) > 3 {
		parts = append([]string{s[len(s)-3:]}, parts...)
		s = s[:len(s)-3]
	}
	s = strings.Join(append([]string{s}, parts...), "\u202f")
	if v < 0 {
		return "−" + s
	}
	return s
}

// Octets is a size for people.
func Octets(n uint64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/step, 0
	for ; v >= step && i < 4; i++ {
		v /= step
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGTP"[i])
}

// Ago is a length of time for people, in its largest unit or two.
func Ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// Moment is a time for people, in UTC.
func Moment(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2 Jan 2006, " + time.TimeOnly + " UTC")
}
