package house

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestEachReasonOfHealthIsDescribed compares the codes that /readyz may name, and
// how bad each is, with the tables of doc/monitoring.md.
func TestEachReasonOfHealthIsDescribed(t *testing.T) {
	levels := map[string]string{"Fail": "failing", "Warn": "warning"}
	given := make(map[string]string)
	call := regexp.MustCompile(`\br\.(Fail|Warn)\("([a-z0-9_]+)"`)
	for _, file := range []string{"indexerd/health.go", "indexerd/statuspage.go", "publisherd/health.go", "internal/monitor/common.go"} {
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			given[m[2]] = levels[m[1]]
		}
	}
	if len(given) < 20 {
		t.Fatalf("only %d codes were found: %v", len(given), slices.Sorted(maps.Keys(given)))
	}
	doc, err := os.ReadFile("../../doc/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(doc)) {
		m := regexp.MustCompile("^\\| `([a-z_]+)` \\| (failing|warning) \\|").FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if given[m[1]] != m[2] {
			t.Errorf("doc/monitoring.md says that %s is %s; it is %q", m[1], m[2], given[m[1]])
		}
		delete(given, m[1])
	}
	for code := range given {
		t.Errorf("doc/monitoring.md does not describe %s", code)
	}
}
