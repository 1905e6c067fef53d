package house

import (
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A logLine is one call of a logger.
type logLine struct {
	at   string
	text ast.Expr
	args []ast.Expr
}

// logLines are the calls of what is called log in a file, by its methods that take a
// message and then keys with values.
func logLines(s *source) (all []logLine) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || !isLogger(method.X) {
			return true
		}
		skip := map[string]int{"Debug": 0, "Info": 0, "Warn": 0, "Error": 0, "Log": 2} // a context and a level
		if first, known := skip[method.Sel.Name]; known && len(call.Args) > first {
			all = append(all, logLine{s.at(call.Pos()), call.Args[first], call.Args[first+1:]})
		}
		return true
	})
	return all
}

func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name == "log"
	case *ast.SelectorExpr:
		return x.Sel.Name == "log" || x.Sel.Name == "Log"
	}
	return false
}

func literal(x ast.Expr) (string, bool) {
	lit, ok := x.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

// logFaults finds lines that no program could tell apart: a text that is not fixed,
// or keys that are not, or are of another form. It gives the keys that are in use.
func logFaults(t *tree) (faults []string, keys map[string]bool) {
	key := regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)
	keys = make(map[string]bool)
	for _, s := range t.sources {
		if s.test || s.nested || s.generated {
			continue
		}
		for _, l := range logLines(s) {
			if text, fixed := literal(l.text); !fixed || text == "" || strings.ContainsAny(text, "\n%") {
				faults = append(faults, l.at+": the text of a log line is fixed; what differs goes behind a key")
			}
			for i, arg := range l.args {
				name, fixed := literal(arg)
				switch {
				case i%2 == 1:
				case !fixed || !key.MatchString(name):
					faults = append(faults, l.at+": the keys of a log line are fixed, in lower case with underscores")
				case i+1 == len(l.args):
					faults = append(faults, l.at+": a key without a value")
				default:
					keys[name] = true
				}
			}
		}
	}
	return faults, keys
}

// TestLogLinesHaveStableKeys compares the keys with the table of doc/monitoring.md.
func TestLogLinesHaveStableKeys(t *testing.T) {
	faults, keys := logFaults(ourTree(t))
	for _, f := range faults {
		t.Error(f)
	}
	for _, known := range []string{"error", "publisher", "retry_ms"} {
		if !keys[known] {
			t.Errorf("no line has the key %s: the rule does not see what is logged", known)
		}
	}
	doc, err := os.ReadFile("../../doc/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n## Log lines\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(section, -1) {
		delete(keys, m[1])
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		t.Errorf("doc/monitoring.md does not name the key %s of log lines", name)
	}
}

func TestEachFaultOfALogLineIsCaught(t *testing.T) {
	rule := func(t *tree) []string {
		faults, _ := logFaults(t)
		return faults
	}
	for _, tt := range []struct{ name, call, wants string }{
		{"a line as it should be", `x.log.Warn("disk", "error", err, "retry_ms", 3)`, ""},
		{"what is no logger", `x.other.Warn(text)`, ""},
		{"a text that differs", `log.Info("page " + url)`, "the text of a log line is fixed"},
		{"a text with a place for something", `log.Info("page %s", "a", 1)`, "the text of a log line is fixed"},
		{"a key that differs", `x.Log.Error("disk", name, 1)`, "the keys of a log line are fixed"},
		{"a key of another form", `x.log.Error("disk", "retryMs", 1)`, "the keys of a log line are fixed"},
		{"a key without a value", `x.log.Error("disk", "error")`, "a key without a value"},
		{"a line at a level", `x.log.Log(ctx, level, "retry", "Bad", 1)`, "the keys of a log line are fixed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkOne(t, rule(madeUp(t, map[string]string{"a/a.go": "// Package a is made up.\npackage a\nfunc f() { " + tt.call + " }\n"})), tt.wants)
		})
	}
}
