package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
)

// A sample is what a daemon holds at one moment. Goroutines are 0 of a daemon that
// does not tell.
type sample struct{ rss, goroutines, files int64 }

func (s sample) String() string {
	return fmt.Sprintf("%d MiB, %d goroutines, %d descriptors", s.rss>>20, s.goroutines, s.files)
}

// look takes a sample of a daemon.
func (d *daemon) look(ctx context.Context) (s sample, err error) {
	pid := d.cmd.Process.Pid
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return s, fmt.Errorf("%s is gone: %w", d.name, err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return s, err
			}
			s.rss = n << 10
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, err
	}
	s.files = int64(len(files))
	s.goroutines, err = d.goroutines(ctx)
	return s, err
}

// goroutines asks the daemon's metrics; 0 if it has none.
func (d *daemon) goroutines(ctx context.Context) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return 0, nil
	}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no go_goroutines among its metrics", d.name)
}

// A table holds the samples of each daemon in their order.
type table struct {
	names []string
	rows  map[string][]sample
}

func (t *table) add(name string, s sample) {
	if t.rows == nil {
		t.rows = make(map[string][]sample)
	}
	if !slices.Contains(t.names, name) {
		t.names = append(t.names, name)
	}
	t.rows[name] = append(t.rows[name], s)
}

func (t *table) last(name string) sample {
	rows := t.rows[name]
	if len(rows) == 0 {
		return sample{}
	}
	return rows[len(rows)-1]
}

// least is how many samples a verdict needs.
const least = 12

// judge compares, of each daemon, the middle of the samples behind the first third,
// in which caches fill, with that of the last third. Flat is: no more than a tenth
// above it, and a little for what has no reason to be exact.
func (t *table) judge(w io.Writer) error {
	var faults []error
	for _, name := range t.names {
		rows := t.rows[name]
		if len(rows) < least {
			return fmt.Errorf("%s: %d samples are too few, want %d", name, len(rows), least)
		}
		third := len(rows) / 3
		from, to := middle(rows[third:2*third]), middle(rows[2*third:])
		fmt.Fprintf(w, "%s: from %s, to %s\n", name, from, to)
		for _, f := range []struct {
			what         string
			from, to, by int64
		}{
			{"memory", from.rss, to.rss, 16 << 20},
			{"goroutines", from.goroutines, to.goroutines, 10},
			{"descriptors", from.files, to.files, 10},
		} {
			if f.to > f.from+f.from/10+f.by {
				faults = append(faults, fmt.Errorf("%s: %s grows, from %d to %d", name, f.what, f.from, f.to))
			}
		}
	}
	if len(t.names) == 0 {
		return errors.New("nothing was looked at")
	}
	return errors.Join(faults...)
}

// middle is the median of each figure.
func middle(rows []sample) sample {
	of := func(f func(sample) int64) int64 {
		all := make([]int64, len(rows))
		for i, s := range rows {
			all[i] = f(s)
		}
		slices.Sort(all)
		return all[len(all)/2]
	}
	return sample{
		of(func(s sample) int64 { return s.rss }), of(func(s sample) int64 { return s.goroutines }), of(func(s sample) int64 { return s.files }),
	}
}
