package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxLines is the longest that a file may grow that people write.
const maxLines = 450

var (
	leftOver  = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)
	namedTest = regexp.MustCompile(`\b(Test|Fuzz|Benchmark|Example)[A-Z]\w*`)
)

// tooLong finds files that outgrew maxLines; a program's output is not counted.
func tooLong(t *tree) []string {
	var found []string
	complain := func(path string, lines int) {
		if lines > maxLines {
			found = append(found, fmt.Sprintf("%s: %d lines; a file has at most %d", path, lines, maxLines))
		}
	}
	for _, s := range t.sources {
		if !s.generated {
			complain(s.path, s.lines)
		}
	}
	for path, lines := range t.other {
		complain(path, lines)
	}
	return found
}

// unexplained finds packages that do not say what they are.
func unexplained(t *tree) []string {
	var found []string
	for dir, sources := range t.packages() {
		name, doc, testOnly := "", "", true
		for _, s := range sources {
			testOnly = testOnly && s.test
		}
		for _, s := range sources {
			if s.test && !testOnly {
				continue
			}
			name = s.file.Name.Name
			if text := s.docText(); len(text) > len(doc) {
				doc = text
			}
		}
		switch {
		case doc == "":
			found = append(found, fmt.Sprintf("%s: package %s has no doc comment", dir, name))
		case name != "main" && !strings.HasPrefix(doc, "Package "+strings.TrimSuffix(name, "_test")+" "):
			found = append(found, fmt.Sprintf("%s: the doc comment must begin with %q", dir, "Package "+name))
		}
	}
	return found
}

// emptyPromises finds package comments that name a test which is not there.
func emptyPromises(t *tree) []string {
	tests := make(map[string]bool)
	for _, s := range t.sources {
		if !s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				tests[f.Name.Name] = true
			}
		}
	}
	var found []string
	for _, s := range t.sources {
		for _, name := range namedTest.FindAllString(s.docText(), -1) {
			if !tests[name] {
				found = append(found, fmt.Sprintf("%s: the package comment names %s, which does not exist", s.path, name))
			}
		}
	}
	return found
}

// unfinished finds notes that work was put off.
func unfinished(t *tree) []string {
	var found []string
	for _, s := range t.sources {
		if s.generated {
			continue
		}
		for _, group := range s.file.Comments {
			if word := leftOver.FindString(group.Text()); word != "" {
				found = append(found, fmt.Sprintf("%s: %s is left behind", s.at(group.Pos()), word))
			}
		}
	}
	return found
}

// hiddenRuns finds code that runs, or ends the program, behind main's back.
func hiddenRuns(t *tree) []string {
	var found []string
	for _, s := range t.sources {
		if s.nested || s.generated {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if f.Recv == nil && f.Name.Name == "init" {
				found = append(found, s.at(f.Pos())+": init runs unasked; call it by a name")
			}
			isMain := f.Recv == nil && f.Name.Name == "main" && s.file.Name.Name == "main"
			if s.test || isMain {
				continue
			}
			for _, call := range selectorCalls(f.Body) {
				if name := call.name; name == "os.Exit" || strings.HasPrefix(name, "log.Fatal") {
					found = append(found, fmt.Sprintf("%s: %s belongs in main alone", s.at(call.pos), name))
				}
			}
		}
	}
	return found
}

// skipped finds tests that can pass without having run. A property that draws
// again (the Skip of rapid) is none.
func skipped(t *tree) []string {
	var found []string
	for _, s := range t.sources {
		if s.test {
			found = append(found, skipsBelow(s, s.file, nil)...)
		}
	}
	return found
}

// skipsBelow finds calls of Skip on a test. The names in tests are those that
// the functions around root declare for one.
func skipsBelow(s *source, root ast.Node, tests map[string]bool) []string {
	var found []string
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if n.Body != nil {
				found = append(found, skipsBelow(s, n.Body, declared(n.Type, nil))...)
			}
			return false
		case *ast.FuncLit:
			found = append(found, skipsBelow(s, n.Body, declared(n.Type, tests))...)
			return false
		case *ast.CallExpr:
			receiver, method, _ := strings.Cut(selectorName(n.Fun), ".")
			if tests[receiver] && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, method) {
				found = append(found, s.at(n.Pos())+": a test is run, not skipped")
			}
		}
		return true
	})
	return found
}

// declared is the names that stand for a test inside a function of this type.
func declared(f *ast.FuncType, outside map[string]bool) map[string]bool {
	tests := make(map[string]bool)
	maps.Copy(tests, outside)
	for _, field := range f.Params.List {
		for _, ident := range field.Names {
			tests[ident.Name] = isTestingType(field.Type)
		}
	}
	return tests
}

// isTestingType recognises *testing.T, its sisters, and testing.TB.
func isTestingType(expr ast.Expr) bool {
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	return strings.HasPrefix(selectorName(expr), "testing.")
}

// selectorName prints a.b, and "" for anything else.
func selectorName(expr ast.Expr) string {
	selector, ok := expr.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok {
		return ""
	}
	return x.Name + "." + selector.Sel.Name
}

type namedCall struct {
	name string
	pos  token.Pos
}

func selectorCalls(body *ast.BlockStmt) []namedCall {
	var calls []namedCall
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name := selectorName(call.Fun); name != "" {
				calls = append(calls, namedCall{name, call.Pos()})
			}
		}
		return true
	})
	return calls
}

func TestSourcesKeepTheHabits(t *testing.T) {
	our := ourTree(t)
	for _, rule := range []func(*tree) []string{tooLong, unexplained, emptyPromises, unfinished, hiddenRuns, skipped} {
		for _, broken := range rule(our) {
			t.Error(broken)
		}
	}
}

func TestEachHabitIsCaught(t *testing.T) {
	long := strings.Repeat("\n", maxLines)
	const doc = "// Package a is made up.\npackage a\n"
	for _, tt := range []struct {
		name  string
		rule  func(*tree) []string
		files map[string]string
		wants string // part of the one complaint; "" for none
	}{
		{"a file of 450 lines is read at a sitting", tooLong, map[string]string{"a/a.go": "package a" + long}, ""},
		{"a file of 451 lines is too long", tooLong, map[string]string{"a/a.go": "package a\n" + long}, "a/a.go: 451 lines"},
		{"a long test is too long as well", tooLong, map[string]string{"a/a_test.go": "package a\n" + long}, "a/a_test.go: 451 lines"},
		{"a long protocol file is too long as well", tooLong, map[string]string{"proto/a.proto": "//\n" + long}, "proto/a.proto: 451 lines"},
		{"generated code may be long", tooLong, map[string]string{"a/a.go": "// Code generated by hand. DO NOT EDIT.\n\npackage a\n" + long}, ""},

		{"a package without a word is noticed", unexplained, map[string]string{"a/a.go": "package a\n"}, "a: package a has no doc comment"},
		{"a comment that stands apart does not count", unexplained, map[string]string{"a/a.go": "// Package a is apart.\n\npackage a\n"}, "no doc comment"},
		{"a test's comment does not count", unexplained, map[string]string{"a/a.go": "package a\n", "a/a_test.go": doc}, "no doc comment"},
		{"a package of tests alone may explain itself", unexplained, map[string]string{"a/a_test.go": doc}, ""},
		{"a comment about something else does not count", unexplained, map[string]string{"a/a.go": "// Hashes live here.\npackage a\n"}, "must begin with"},
		{"one explained file is enough", unexplained, map[string]string{"a/a.go": doc, "a/b.go": "package a\n"}, ""},

		{"a promised test exists", emptyPromises, map[string]string{"a/a.go": "// Package a holds; TestHold shows it.\npackage a\n", "b/b_test.go": "package b\nfunc TestHold() {}\n"}, ""},
		{"a promised test does not exist", emptyPromises, map[string]string{"a/a.go": "// Package a holds; TestHold shows it.\npackage a\nfunc TestHold() {}\n"}, "names TestHold"},

		{"work put off is noticed", unfinished, map[string]string{"a/a.go": doc + "func f() {\n\t// TODO: all of it\n}\n"}, "a/a.go:4: TODO"},
		{"a word that only contains it is none", unfinished, map[string]string{"a/a.go": doc + "// MASTODON is no note.\n"}, ""},

		{"init is noticed", hiddenRuns, map[string]string{"a/a.go": doc + "func init() {}\n"}, "a/a.go:3: init"},
		{"a method called init is none", hiddenRuns, map[string]string{"a/a.go": doc + "func (t T) init() {}\n"}, ""},
		{"an exit outside main is noticed", hiddenRuns, map[string]string{"a/a.go": "package main\nfunc run() { os.Exit(1) }\n"}, "os.Exit belongs in main"},
		{"a fatal log line is an exit", hiddenRuns, map[string]string{"a/a.go": doc + "func run() { defer func() { log.Fatalf(``) }() }\n"}, "log.Fatalf belongs in main"},
		{"main may exit", hiddenRuns, map[string]string{"a/a.go": "package main\nfunc main() { os.Exit(1) }\n"}, ""},
		{"a library has no main to exit from", hiddenRuns, map[string]string{"a/a.go": doc + "func main() { os.Exit(1) }\n"}, "os.Exit belongs in main"},

		{"a skipped test is noticed", skipped, map[string]string{"a/a_test.go": "package a\nfunc TestA(t *testing.T) { t.Skip() }\n"}, "a/a_test.go:2: a test is run"},
		{"a skipped fuzz input is noticed", skipped, map[string]string{"a/a_test.go": "package a\nfunc FuzzA(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { t.Skipf(``) }) }\n"}, "a test is run"},
		{"a helper that skips is noticed", skipped, map[string]string{"a/a_test.go": "package a\nfunc need(tb testing.TB) { tb.SkipNow() }\n"}, "a test is run"},
		{"a test that skips after a property is noticed", skipped, map[string]string{"a/a_test.go": "package a\nfunc TestA(t *testing.T) { rapid.Check(t, func(t *rapid.T) {}); t.Skip() }\n"}, "a test is run"},
		{"a property may draw again", skipped, map[string]string{"a/a_test.go": "package a\nfunc TestA(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }\n"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkOne(t, tt.rule(madeUp(t, tt.files)), tt.wants)
		})
	}
}
