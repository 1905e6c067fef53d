package cli

import (
	"strings"
	"testing"
	"time"
)

func TestProgressIsALineNowAndThenOrABar(t *testing.T) {
	for _, tt := range []struct {
		name     string
		terminal bool
		wants    []string
		lines    int // ends of lines
	}{
		{"elsewhere", false, []string{"push site 100 of 400 pages, 1000 B, 10 pages/s, 100 B/s, 30s left\n"}, 3},
		{"on a terminal", true, []string{"\rpush site [######..................] 100 of 400 pages", "30s left", "\r" + strings.Repeat(" ", 30)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			at := time.Unix(0, 0)
			p := &Progress{w: &out, terminal: tt.terminal, now: func() time.Time { return at }}
			for i := range int64(36) {
				p.Show(Step{What: "push site", Done: 10 * i, Total: 400, Octets: 100 * i})
				at = at.Add(time.Second)
			}
			p.Clear()
			for _, w := range tt.wants {
				if !strings.Contains(out.String(), w) {
					t.Errorf("%q is not in %q", w, out.String())
				}
			}
			if n := strings.Count(out.String(), "\n"); n != tt.lines {
				t.Errorf("%d lines, want %d", n, tt.lines)
			}
		})
	}
}

func TestAShortCommandShowsNoProgress(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out)
	for i := range int64(1000) {
		p.Show(Step{What: "scan site", Done: i})
	}
	if p.Clear(); out.Len() > 0 {
		t.Errorf("%q", out.String())
	}
}
