package cli

import (
	"log/slog"
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
		{"elsewhere", false, []string{"push site 100 of 400 pages, 30s left, 1000 B, 10 pages/s, 100 B/s\n"}, 3},
		{"on a terminal", true, []string{"\rpush site [####............] 100 of 400 pages", "30s left", "\r" + strings.Repeat(" ", 30)}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			at := time.Unix(0, 0)
			p := &Progress{w: &out, terminal: tt.terminal, columns: func() int { return 200 }, now: func() time.Time { return at }}
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

func TestABarFitsItsTerminal(t *testing.T) {
	var out strings.Builder
	at, columns := time.Unix(0, 0), 0
	p := &Progress{w: &out, terminal: true, columns: func() int { return columns }, now: func() time.Time { return at }}
	p.Show(Step{What: "push a collection with a long name to 12 indexers", Done: 123456, Total: 1234567, Octets: 99_000_000})
	at = at.Add(time.Second)
	for _, columns = range []int{80, 200, 40, 12} {
		out.Reset()
		p.Show(Step{What: "push a collection with a long name to 12 indexers", Done: 223456, Total: 1234567, Octets: 199_000_000})
		at = at.Add(time.Second)
		drawn := strings.Split(out.String(), "\r")
		for _, line := range drawn {
			if n := len([]rune(line)); n >= columns {
				t.Errorf("%d columns are drawn on %d: %q", n, columns, line)
			}
		}
		if last := drawn[len(drawn)-1]; last == "" || columns == 200 && !strings.HasSuffix(last, "B/s") {
			t.Errorf("on %d columns: %q", columns, last)
		}
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

// TestATerminalOf80ColumnsShowsAllOfAPush: pages, time left, octets and both rates; of
// a large one with a long name the time left at least.
func TestATerminalOf80ColumnsShowsAllOfAPush(t *testing.T) {
	for _, tt := range []struct {
		step Step
		want string
	}{
		{Step{What: "push docs", Done: 2352, Total: 4424, Octets: 1_093_800}, "push docs [##..] 2352 of 4424 pages, 26s left, 1093.8 kB, 78 pages/s, 36.5 kB/s"},
		{Step{What: "push documentation", Done: 223456, Total: 1234567, Octets: 199_000_000},
			"push documentation [....] 223456 of 1234567 pages, 2m16s left, 199.0 MB"},
	} {
		var out strings.Builder
		at := time.Unix(0, 0)
		p := &Progress{w: &out, terminal: true, columns: func() int { return 80 }, now: func() time.Time { return at }}
		p.Show(Step{What: tt.step.What, Total: tt.step.Total})
		at = at.Add(30 * time.Second)
		p.Show(tt.step)
		if got := strings.TrimLeft(out.String(), "\r"); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestABarSaysThatItWaits in place of a time left, of which nobody knows anything then.
func TestABarSaysThatItWaits(t *testing.T) {
	p := &Progress{terminal: true}
	s := Step{What: "push site", Done: 99, Total: 100, Octets: 1000, Waiting: true}
	if got, want := p.text(s, time.Second, barWidth), "push site [###############.] 99 of 100 pages, waiting for the answer, 1000 B, 99 pages/s, 1000 B/s"; got != want {
		t.Errorf("%q", got)
	}
	s.Done = 100 // as of a push of which nothing is left
	if got := p.text(s, time.Second, barWidth); strings.Contains(got, "waiting") {
		t.Errorf("%q", got)
	}
}

// TestALogLineStandsAlone: the bar goes before it, and comes back below it.
func TestALogLineStandsAlone(t *testing.T) {
	var out strings.Builder
	at := time.Unix(0, 0)
	p := &Progress{w: &out, terminal: true, columns: func() int { return 200 }, now: func() time.Time { return at }}
	show := func(done int64) {
		p.Show(Step{What: "push site", Done: done, Total: 4})
		at = at.Add(time.Second)
	}
	show(1)
	show(2)
	bar := out.String()
	log := NewLogger(p, slog.LevelInfo)
	log.Info("one line")
	show(3)
	got, drawn := strings.CutPrefix(out.String(), bar)
	if want := "\r" + strings.Repeat(" ", len(bar)-1) + "\rtime="; !drawn || !strings.HasPrefix(got, want) {
		t.Errorf("%q was written over %q", got, bar)
	}
	if line, again, ok := strings.Cut(got, "\n"); !ok || !strings.HasSuffix(line, `msg="one line"`) || !strings.HasPrefix(again, "\rpush site [############....]") {
		t.Errorf("%q, and then %q", line, again)
	}
	out.Reset()
	p.Clear()
	log.Info("more")
	if !strings.HasSuffix(out.String(), "\n") || strings.Count(out.String(), "\r") != 2 {
		t.Errorf("without a bar: %q", out.String())
	}
}

func TestABarLosesWholeParts(t *testing.T) {
	const text = "push é [##..] 1 of 4 pages, 3s left, 20 B, 1 pages/s, 20 B/s"
	whole := len([]rune(text))
	for _, tt := range []struct {
		most int
		want string
	}{
		{whole, text},
		{whole - 1, "push é [##..] 1 of 4 pages, 3s left, 20 B, 1 pages/s"},
		{whole - 8, "push é [##..] 1 of 4 pages, 3s left, 20 B, 1 pages/s"},
		{whole - 9, "push é [##..] 1 of 4 pages, 3s left, 20 B"},
		{26, "push é [##..] 1 of 4 pages"},
		{25, "push é [##..] 1 of 4 page"},
		{1, "p"},
	} {
		if got := shortened(text, tt.most); got != tt.want {
			t.Errorf("%d columns: %q, want %q", tt.most, got, tt.want)
		}
	}
}
