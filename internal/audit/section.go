package audit

import (
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
)

// shownEvents is how many of the newest events the status page lists.
const shownEvents = 12

// Section is what a daemon's page shows of the log in its folder.
func Section(dir string, now time.Time) monitor.Section {
	s := monitor.Section{ID: "actions", Title: "Admin actions", Empty: "None is written down yet."}
	events, err := Recent(dir, shownEvents)
	if err != nil {
		s.Empty = "They could not be read: " + err.Error()
	}
	t := monitor.Table{Caption: "What was done last, as " + File + " has it", Heads: []string{"When", "Action", "Who", "What became of it"}}
	for _, e := range events {
		when := e.At
		if at, err := time.Parse(time.RFC3339Nano, e.At); err == nil {
			when = monitor.Ago(now.Sub(at)) + " ago"
		}
		became := "begun"
		switch {
		case e.Error != "":
			became = "failed: " + e.Error
		case e.Event == Ended:
			became = "done"
		}
		t.Rows = append(t.Rows, []string{when, strings.TrimSpace(e.Action + " " + strings.Join(e.Args, " ")), e.User, became})
	}
	if len(t.Rows) > 0 {
		s.Tables = []monitor.Table{t}
	}
	return s
}
