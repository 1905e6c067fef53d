package audit

import (
	"fmt"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
)

// shownEvents is of how many of the newest events the status page tells. Beginning and
// end of one action are two.
const shownEvents = 24

// Section is what a daemon's page shows of the log in its folder.
func Section(dir string, now time.Time) monitor.Section {
	s := monitor.Section{ID: "actions", Title: "Admin actions", Empty: "None is written down yet."}
	events, err := Recent(dir, shownEvents)
	if err != nil {
		s.Empty = "They could not be read: " + err.Error()
	}
	t := monitor.Table{Caption: "What was done last, as " + File + " has it", Heads: []string{"When", "Action", "Who", "What became of it"}}
	ends := make(map[string]int) // rows of what ended, whose beginning is still to come
	for _, e := range events {
		action, key := strings.TrimSpace(e.Action+" "+strings.Join(e.Args, " ")), fmt.Sprint(e.PID, " ", e.Action)
		if i, ended := ends[key]; ended && e.Event == Begun {
			t.Rows[i][1] = action
			delete(ends, key)
			continue
		}
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
		if e.Event == Ended {
			ends[key] = len(t.Rows)
		}
		t.Rows = append(t.Rows, []string{when, action, e.User, became})
	}
	if len(t.Rows) > 0 {
		s.Tables = []monitor.Table{t}
	}
	return s
}
