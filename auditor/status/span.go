package status

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Decisions in the order in which they are shown.
func decisions() []translog.Decision {
	return []translog.Decision{translog.Include, translog.Update, translog.Exclude, translog.RevokeAck, translog.DeleteAck}
}

// A Span is a stretch of time, and what was decided in it.
type Span struct {
	From    envelope.Time               `json:"from"`
	To      envelope.Time               `json:"to"` // exclusive
	Decided map[translog.Decision]Tally `json:"decided"`
}

// maxSpans is the most stretches that a report is cut into.
const maxSpans = 60

// widths are how long a stretch may be.
func widths() []time.Duration {
	const day = 24 * time.Hour
	return []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, day, 7 * day, 30 * day, 365 * day, 3650 * day,
	}
}

// spans cuts the time between the first and last event into at most maxSpans
// stretches of one width. Those of under an hour need every event.
func (r *record) spans() []Span {
	if len(r.Totals) == 0 {
		return []Span{}
	}
	first, last := r.First.At.Unix(), r.Last.At.Unix()
	width := int64(0)
	for _, w := range widths() {
		width = int64(w.Seconds())
		if fine := r.Unlisted == 0 || w >= time.Hour; fine && last/width-first/width < maxSpans {
			break
		}
	}
	begin := first / width
	all := make([]Span, last/width-begin+1)
	for i := range all {
		from := (begin + int64(i)) * width
		all[i] = Span{From: at(from), To: at(from + width), Decided: make(map[translog.Decision]Tally)}
	}
	add := func(second int64, d translog.Decision, t Tally) {
		i := second/width - begin
		if i < 0 || i >= int64(len(all)) { // a time that goes back: lint tells it
			return
		}
		old := all[i].Decided[d]
		all[i].Decided[d] = Tally{old.Entries + t.Entries, old.Pages + t.Pages}
	}
	if r.Unlisted == 0 {
		for _, e := range r.Events {
			add(e.At.Unix(), e.Decision, Tally{1, e.Pages})
		}
		return all
	}
	for hour, decided := range r.Hours {
		for d, t := range decided {
			add(hour*3600, d, t)
		}
	}
	return all
}

func at(second int64) envelope.Time { return envelope.At(time.Unix(second, 0)) }
