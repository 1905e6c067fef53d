package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The page of bad input, how many cases it has, and where its URLs are tested.
const (
	negativePage  = "doc/negative-cases.md"
	negativeCases = 42
	negativeURLs  = 39
	urlTests      = "grants/scope_test.go"
)

var (
	caseID    = regexp.MustCompile(`^(U?)(\d{1,2})([a-z]?)$`)
	errorName = regexp.MustCompile(`^(?:([a-z]+)\.)?(Err[A-Z]\w*)$`)
)

// refusalsOf are what a refusal may be called: the errors of each package, as
// name.ErrX by the last part of its folder, and the reasons of package grants.
func refusalsOf(t *tree) map[string]bool {
	known := make(map[string]bool)
	for _, s := range t.sources {
		if s.test || s.nested {
			continue
		}
		for _, decl := range s.file.Decls {
			group, ok := decl.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR && group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok || !strings.HasPrefix(v.Names[0].Name, "Err") {
					continue
				}
				known[path.Base(s.dir())+"."+v.Names[0].Name] = true
				if s.dir() != "grants" || len(v.Values) != 1 {
					continue
				}
				if word, ok := v.Values[0].(*ast.BasicLit); ok {
					if reason, err := strconv.Unquote(word.Value); err == nil {
						known[reason] = true
					}
				}
			}
		}
	}
	return known
}

// negatives is the page of bad input as it is read.
type negatives struct {
	known map[string]bool
	urls  string // the text of the tests of URLs
	seen  map[string]int
	found []string
}

func (n *negatives) complain(line int, format string, args ...any) {
	n.found = append(n.found, fmt.Sprintf("%s:%d: ", negativePage, line)+fmt.Sprintf(format, args...))
}

// readNegatives finds what is wrong with the rows of the page.
func readNegatives(text, urls string, known map[string]bool) []string {
	n := &negatives{known: known, urls: urls, seen: make(map[string]int)}
	for i, line := range strings.Split(text, "\n") {
		row := cells(line)
		if len(row) == 0 || row[0] == "case" || strings.HasPrefix(row[0], "--") {
			continue
		}
		n.row(i+1, row)
	}
	for prefix, last := range map[string]int{"": negativeCases, "U": negativeURLs} {
		for number := 1; number <= last; number++ {
			if id := fmt.Sprint(prefix, number); n.seen[id] == 0 {
				n.found = append(n.found, fmt.Sprintf("%s: case %s has no row", negativePage, id))
			}
		}
	}
	return n.found
}

// row takes one case.
func (n *negatives) row(line int, row []string) {
	m := caseID.FindStringSubmatch(row[0])
	if m == nil || len(row) != 4 || slices.Contains(row, "") {
		n.complain(line, "%s: want the number of a case and three more cells, none of them empty", row[0])
		return
	}
	if n.seen[row[0]] > 0 || m[3] != "" && m[3] != "a" && n.seen[m[2]+string(m[3][0]-1)] == 0 {
		n.complain(line, "%s: stands twice, or out of order", row[0])
	}
	n.seen[row[0]]++
	n.seen[m[1]+m[2]]++
	if m[1] == "U" {
		n.url(line, row)
	}
	if accepted := strings.HasPrefix(row[1], "accepted"); accepted && row[2] == "none" {
		n.shown(line, row)
		return
	}
	names := quoted.FindAllStringSubmatch(row[2], -1)
	if len(names) == 0 {
		n.complain(line, "%s: no error is named", row[0])
	}
	for _, name := range names {
		whole := name[1]
		if e := errorName.FindStringSubmatch(whole); e != nil && e[1] == "" {
			whole = "envelope." + e[2]
		}
		if !n.known[whole] {
			n.complain(line, "%s: there is no %s", row[0], name[1])
		}
	}
	n.shown(line, row)
}

// shown wants a test or script; that it exists is asked of every page.
func (n *negatives) shown(line int, row []string) {
	for _, m := range quoted.FindAllStringSubmatch(row[3], -1) {
		if docTest.MatchString(m[1]) {
			return
		}
	}
	n.complain(line, "%s: no test is named", row[0])
}

// url wants the URLs of a row among those of the tests.
func (n *negatives) url(line int, row []string) {
	for _, m := range quoted.FindAllStringSubmatch(row[1], -1) {
		if !strings.Contains(n.urls, m[1]) {
			n.complain(line, "%s: %s does not have %s", row[0], urlTests, m[1])
		}
	}
}

func TestEveryNegativeCaseHasItsTest(t *testing.T) {
	urls, err := os.ReadFile("../../" + urlTests)
	if err != nil {
		t.Fatal(err)
	}
	p := ourPages(t)
	known := refusalsOf(ourTree(t))
	for _, name := range []string{"envelope.ErrSyntax", "identity.ErrCertificate", "translog.ErrClock", "wrong-issuer"} {
		if !known[name] {
			t.Errorf("%s is not among the refusals: the rule does not see them", name)
		}
	}
	for _, found := range readNegatives(p.text[negativePage], string(urls), known) {
		t.Error(found)
	}
}

func TestEachFaultOfTheNegativesIsCaught(t *testing.T) {
	var good strings.Builder
	good.WriteString("| case | what it is | refused as | what shows it |\n|---|---|---|---|\n")
	for i := 1; i <= negativeCases; i++ {
		fmt.Fprintf(&good, "| %d | bad | `ErrA` | `TestA` |\n", i)
	}
	for i := 1; i <= negativeURLs; i++ {
		fmt.Fprintf(&good, "| U%d | `https://a/` | `reason` | `TestA` |\n", i)
	}
	const seven = "| 7 | bad | `ErrA` | `TestA` |\n"
	for _, tt := range []struct{ name, old, new, wants string }{
		{"a page that is right", "", "", ""},
		{"two rows of one case", seven, "| 7a | bad | `ErrA`, `b.ErrB` | `TestA` |\n| 7b | accepted: good | none | `TestA` |\n", ""},
		{"a case without a row", seven, "", "case 7 has no row"},
		{"a URL without a row", "| U9 | `https://a/` | `reason` | `TestA` |\n", "", "case U9 has no row"},
		{"a row twice", seven, seven + seven, "stands twice"},
		{"a second part without a first", seven, strings.Replace(seven, "7", "7b", 1), "out of order"},
		{"a cell too few", seven, seven + "| 8 | `ErrA` | `TestA` |\n", "want the number"},
		{"an id of another form", seven, seven + strings.Replace(seven, "7", "7.1", 1), "want the number"},
		{"an error that there is not", seven, strings.Replace(seven, "ErrA", "ErrGone", 1), "there is no ErrGone"},
		{"an error of another package", seven, strings.Replace(seven, "ErrA", "a.ErrB", 1), "there is no a.ErrB"},
		{"no error", seven, strings.Replace(seven, "`ErrA`", "refused", 1), "no error is named"},
		{"nothing refused that is not accepted", seven, strings.Replace(seven, "`ErrA`", "none", 1), "no error is named"},
		{"no test", seven, strings.Replace(seven, "`TestA`", "`doc/log.md`", 1), "no test is named"},
		{"a URL that is not tested", "| U9 | `https://a/` |", "| U9 | `https://b/` |", "does not have https://b/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.old != "" && strings.Count(good.String(), tt.old) != 1 {
				t.Fatalf("the page holds %q %d times", tt.old, strings.Count(good.String(), tt.old))
			}
			page := strings.Replace(good.String(), tt.old, tt.new, 1)
			checkOne(t, readNegatives(page, `"https://a/"`, map[string]bool{"envelope.ErrA": true, "b.ErrB": true, "reason": true}), tt.wants)
		})
	}
}
