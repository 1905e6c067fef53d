package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// modulePath is the name under which the packages of this tree import one another.
const modulePath = "github.com/uzpif-oi/uzpif-oi"

// A source is one Go file.
type source struct {
	path      string // slash-separated, relative to the root of the tree
	nested    bool   // in another module of this repository, or under testdata
	test      bool
	generated bool
	lines     int
	imports   []string // ours are relative to the module, as "envelope"
	fset      *token.FileSet
	file      *ast.File
}

// dir is the package's folder, which is also its name in the import graph.
func (s *source) dir() string { return path.Dir(s.path) }

// docText is the package comment, without directives.
func (s *source) docText() string { return s.file.Doc.Text() }

// at names a place in the file as an editor would.
func (s *source) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", s.path, s.fset.Position(pos).Line)
}

// A tree is all the Go files, and the lengths of the other files that people write.
type tree struct {
	sources []*source
	other   map[string]int // path to lines
}

// packages groups the files of our own module by folder.
func (t *tree) packages() map[string][]*source {
	byDir := make(map[string][]*source)
	for _, s := range t.sources {
		if !s.nested {
			byDir[s.dir()] = append(byDir[s.dir()], s)
		}
	}
	return byDir
}

// parseSource reads one file, whatever its build tags say.
func parseSource(name string, text []byte) (*source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	s := &source{
		path:      name,
		nested:    strings.Contains("/"+name, "/testdata/"),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(file),
		lines:     countLines(text),
		fset:      fset,
		file:      file,
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		s.imports = append(s.imports, strings.TrimPrefix(imported, modulePath+"/"))
	}
	return s, nil
}

func countLines(text []byte) int {
	n := bytes.Count(text, []byte{'\n'})
	if len(text) > 0 && text[len(text)-1] != '\n' {
		n++
	}
	return n
}

// isWritten reports whether people write and read this file as code.
func isWritten(name string) bool {
	switch path.Ext(name) {
	case ".proto", ".sh":
		return true
	}
	return path.Base(name) == "Makefile"
}

// readTree walks the repository below root. Folders that the Go tools pass
// over (hidden ones), and those that make fills, are left out.
func readTree(root string) (*tree, error) {
	t := &tree{other: make(map[string]int)}
	nested := make(map[string]bool)
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if entry.IsDir() {
			if name == "." {
				return nil
			}
			if strings.ContainsAny(entry.Name()[:1], "._") || name == "bin" || name == "demo" {
				return fs.SkipDir
			}
			_, err := os.Stat(filepath.Join(file, "go.mod"))
			nested[name] = err == nil || nested[path.Dir(name)]
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		return t.add(name, file, nested[path.Dir(name)])
	})
	return t, err
}

// add reads one file into the tree, if a rule speaks about such files.
func (t *tree) add(name, file string, nested bool) error {
	isGo := path.Ext(name) == ".go"
	if !isGo && !isWritten(name) {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !isGo {
		t.other[name] = countLines(text)
		return nil
	}
	s, err := parseSource(name, text)
	if err != nil {
		return err
	}
	s.nested = s.nested || nested
	t.sources = append(t.sources, s)
	return nil
}

// ourTree is the repository that this test stands in.
func ourTree(t *testing.T) *tree {
	t.Helper()
	our, err := readTree("../..")
	if err != nil {
		t.Fatal(err)
	}
	if len(our.packages()["internal/house"]) == 0 {
		t.Fatal("the walk did not meet internal/house: it stands at the wrong root")
	}
	return our
}

// madeUp is a tree of the given files, path to text.
func madeUp(t *testing.T, files map[string]string) *tree {
	t.Helper()
	made := &tree{other: make(map[string]int)}
	for name, text := range files {
		if path.Ext(name) != ".go" {
			made.other[name] = countLines([]byte(text))
			continue
		}
		s, err := parseSource(name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		made.sources = append(made.sources, s)
	}
	return made
}

// checkOne wants exactly one complaint, and wants in it; or none if wants is "".
func checkOne(t *testing.T, found []string, wants string) {
	t.Helper()
	if wants == "" {
		if len(found) != 0 {
			t.Errorf("complaints %q, want none", found)
		}
		return
	}
	if len(found) != 1 || !strings.Contains(found[0], wants) {
		t.Errorf("complaints %q, want one with %q", found, wants)
	}
}
