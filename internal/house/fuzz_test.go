package house

import (
	"fmt"
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// decoderName is how a function is called that reads what others wrote.
var decoderName = regexp.MustCompile(`^(Parse|Decode|Open|Read)[A-Z]?`)

// trustedDecoders read what their own process wrote, or are the frame around
// decoders that are fuzzed one by one.
var trustedDecoders = []string{
	"internal/durable.ReadJSON", // rows of our own store, of any type
}

// fuzzes are the fuzz targets of a file.
func fuzzes(s *source) (all []*ast.FuncDecl) {
	if !s.test {
		return nil
	}
	for _, decl := range s.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") && len(f.Type.Params.List) == 1 && isTestingType(f.Type.Params.List[0].Type) {
			all = append(all, f)
		}
	}
	return all
}

// unlistedFuzz finds fuzz targets that make fuzz does not run: it lists those of
// our own module, as it is built without tags.
func unlistedFuzz(t *tree) []string {
	var found []string
	for _, s := range t.sources {
		for _, f := range fuzzes(s) {
			switch {
			case s.nested:
				found = append(found, fmt.Sprintf("%s: make fuzz does not run %s: it is in another module", s.at(f.Pos()), f.Name.Name))
			case constrained(s):
				found = append(found, fmt.Sprintf("%s: make fuzz does not run %s: its file has a build tag", s.at(f.Pos()), f.Name.Name))
			}
		}
	}
	return found
}

// constrained reports whether a file is built under a condition.
func constrained(s *source) bool {
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if c.Pos() < s.file.Package && strings.HasPrefix(c.Text, "//go:build ") {
				return true
			}
		}
	}
	return false
}

// decoders are the functions of a file that read octets which somebody else may
// have written: by name, and by what they take first.
func decoders(s *source) (names []string) {
	if s.test || s.nested || s.generated {
		return nil
	}
	for _, decl := range s.file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !f.Name.IsExported() || !decoderName.MatchString(f.Name.Name) || len(f.Type.Params.List) == 0 {
			continue
		}
		if first := f.Type.Params.List[0].Type; isOctets(first) || selectorName(first) == "io.Reader" {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

func isOctets(expr ast.Expr) bool {
	slice, ok := expr.(*ast.ArrayType)
	if !ok || slice.Len != nil {
		return false
	}
	element, ok := slice.Elt.(*ast.Ident)
	return ok && element.Name == "byte"
}

// unfuzzed finds decoders that no fuzz target reaches: none in whose file, or in
// a file of our own that it calls, the decoder is named.
func unfuzzed(t *tree) []string {
	var found []string
	reached := fuzzedNames(t)
	for _, s := range t.sources {
		for _, name := range decoders(s) {
			whole := s.dir() + "." + name
			if !reached[whole] && !slices.Contains(trustedDecoders, whole) {
				found = append(found, fmt.Sprintf("%s: no fuzz target of the package calls %s", s.path, name))
			}
		}
	}
	return found
}

// fuzzedNames are the functions, as folder.Name, that are named by fuzz targets,
// by functions of their package's tests that those name, and so on.
func fuzzedNames(t *tree) map[string]bool {
	reached := make(map[string]bool)
	for dir, sources := range t.packages() {
		bodies := make(map[string]ast.Node)
		var next []string
		for _, s := range sources {
			for _, decl := range s.file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Body != nil {
					bodies[f.Name.Name] = f.Body
				}
			}
			for _, f := range fuzzes(s) {
				next = append(next, f.Name.Name)
			}
		}
		for len(next) > 0 {
			name := next[0]
			next = next[1:]
			if reached[dir+"."+name] {
				continue
			}
			reached[dir+"."+name] = true
			if body := bodies[name]; body != nil {
				next = append(next, identifiers(body)...)
			}
		}
	}
	return reached
}

// identifiers are all names below a node.
func identifiers(node ast.Node) (names []string) {
	ast.Inspect(node, func(n ast.Node) bool {
		if ident, ok := n.(*ast.Ident); ok {
			names = append(names, ident.Name)
		}
		return true
	})
	return names
}

func TestEveryDecoderIsFuzzed(t *testing.T) {
	our := ourTree(t)
	for _, rule := range []func(*tree) []string{unlistedFuzz, unfuzzed} {
		for _, broken := range rule(our) {
			t.Error(broken)
		}
	}
	for _, known := range []string{"envelope.Parse", "grants.OpenGrant", "internal/identity.ParseCard"} {
		if !fuzzedNames(our)[known] {
			t.Errorf("%s is not reached: the rule does not see what is fuzzed", known)
		}
	}
	// What this test takes for granted of make fuzz.
	for file, line := range map[string]string{"Makefile": "tools/fuzz.sh $(FUZZTIME)", "tools/fuzz.sh": "$go test -list '^Fuzz' ./..."} {
		text, err := os.ReadFile("../../" + file)
		if err != nil || !strings.Contains(string(text), line) {
			t.Errorf("%s does not say %q (%v)", file, line, err)
		}
	}
}

func TestEachGapInTheFuzzingIsCaught(t *testing.T) {
	const (
		decoder = "// Package a is made up.\npackage a\nimport \"io\"\nfunc ParseThing(b []byte) error { return nil }\n"
		target  = "package a\nfunc FuzzThing(f *testing.F) { f.Fuzz(func(t *testing.T, b []byte) { check(b) }) }\nfunc check(b []byte) { a.ParseThing(b) }\n"
	)
	for _, tt := range []struct {
		name  string
		rule  func(*tree) []string
		files map[string]string
		wants string // part of the one complaint; "" for none
	}{
		{"a target that a helper stands before", unfuzzed, map[string]string{"a/a.go": decoder, "a/a_test.go": target}, ""},
		{"a decoder without a target", unfuzzed, map[string]string{"a/a.go": decoder}, "a/a.go: no fuzz target of the package calls ParseThing"},
		{"a target of another decoder", unfuzzed, map[string]string{"a/a.go": decoder, "a/a_test.go": strings.Replace(target, "ParseThing", "ParseOther", 1)}, "ParseThing"},
		{"a target in another package", unfuzzed, map[string]string{"a/a.go": decoder, "b/a_test.go": target}, "ParseThing"},
		{"a test that calls the decoder and is no target", unfuzzed, map[string]string{"a/a.go": decoder, "a/a_test.go": strings.Replace(target, "FuzzThing", "TestThing", 1)}, "ParseThing"},
		{"a decoder that reads a stream", unfuzzed, map[string]string{"a/a.go": strings.Replace(decoder, "b []byte", "r io.Reader", 1)}, "ParseThing"},
		{"a decoder of text is held by its own type's tests", unfuzzed, map[string]string{"a/a.go": strings.Replace(decoder, "b []byte", "s string", 1)}, ""},
		{"what is not exported is reached from what is", unfuzzed, map[string]string{"a/a.go": strings.Replace(decoder, "ParseThing", "parseThing", 1)}, ""},

		{"a target of our module", unlistedFuzz, map[string]string{"a/a_test.go": target}, ""},
		{"a target below testdata", unlistedFuzz, map[string]string{"testdata/third/a_test.go": target}, "another module"},
		{"a target behind a tag", unlistedFuzz, map[string]string{"a/a_test.go": "//go:build long\n\n" + target}, "has a build tag"},
		{"a function that only begins like one", unlistedFuzz, map[string]string{"testdata/third/a_test.go": "package a\nfunc FuzzSeeds() {}\n"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkOne(t, tt.rule(madeUp(t, tt.files)), tt.wants)
		})
	}
}
