package house

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A register is a page that lists the requirements of one source text, one
// row each, from 1 to last.
type register struct {
	path   string
	prefix string // of each id
	last   int
}

// registers are the pages that there may be. The first must be there; another
// is as complete as it, once it is there at all.
func registers() []register {
	return []register{
		{"doc/requirements.md", "OI", 182},
		{"doc/requirements-tct.md", "TCT", 244},
		{"doc/requirements-scp.md", "SCP", 226},
		{"doc/requirements-rbt.md", "RBT", 217},
		{"doc/requirements-arc.md", "ARC", 66},
		{"doc/reliability.md", "REL", 30},
	}
}

// statuses are what a row may say; all but the first give a reason behind a colon.
var statuses = []string{"met", "in part", "not yet", "does not apply"}

var (
	quoted = regexp.MustCompile("`([^`\n]+)`")
	// docTest is a test by its name alone, or, of several, by its folder as well.
	docTest = regexp.MustCompile(`^(?:([a-z0-9_/]+)\.)?((?:Test|Fuzz)[A-Z]\w*)$`)
	// docPath is a page at the root, a file below a folder, or anything of testdata.
	docPath = regexp.MustCompile(`^(?:[A-Z]+\.md|(?:[\w-]+/)+[\w.-]+\.(?:md|txt|go|proto|json|sh)|(?:[\w-]+/)*testdata(?:/[\w.-]+)*/?)$`)
	rowID   = regexp.MustCompile(`^([A-Z]+)-(\d{3})$`)
)

// pages is what the rules about doc/ look at.
type pages struct {
	tests  map[string][]string // by name, the folders of those that exist
	exists func(path string) bool
	text   map[string]string // by path
}

// testsOf lists the tests of the whole tree, those of nested modules as well.
func testsOf(t *tree) map[string][]string {
	tests := make(map[string][]string)
	for _, s := range t.sources {
		if !s.test {
			continue
		}
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if ok && f.Recv == nil && docTest.MatchString(f.Name.Name) && !slices.Contains(tests[f.Name.Name], s.dir()) {
				tests[f.Name.Name] = append(tests[f.Name.Name], s.dir())
			}
		}
	}
	return tests
}

// promises finds what the pages name and what is not there.
func (p pages) promises() []string {
	var found []string
	for page, text := range p.text {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			if why := p.missing(m[1]); why != "" {
				found = append(found, fmt.Sprintf("%s names %s, %s", page, m[1], why))
			}
		}
	}
	return found
}

// missing says why what is named is not there; "" if it is, or if it is
// neither a test nor a path.
func (p pages) missing(name string) string {
	m := docTest.FindStringSubmatch(name)
	switch {
	case m == nil && docPath.MatchString(name) && !p.exists(name):
		return "and there is no such file"
	case m == nil:
		return ""
	}
	dirs := p.tests[m[2]]
	switch {
	case len(dirs) == 0, m[1] != "" && !slices.Contains(dirs, m[1]):
		return "which does not exist"
	case m[1] == "" && len(dirs) > 1:
		return fmt.Sprintf("which is in each of %q: say folder.Name", dirs)
	}
	return ""
}

// cells are those of a row of a table; nil if line is none.
func cells(line string) []string {
	line = strings.TrimSpace(line)
	if len(line) < 2 || line[0] != '|' || line[len(line)-1] != '|' {
		return nil
	}
	all := strings.Split(line[1:len(line)-1], "|")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// ledger is a page of requirements as it is read.
type ledger struct {
	p     pages
	r     register
	seen  map[int]int    // rows by the number of their id
	count map[string]int // rows by status
	says  map[string]int // what the page counts
	found []string
}

// requirements finds what is wrong with all registers, and the pages that
// look like one and are none.
func (p pages) requirements() []string {
	var found []string
	known := make(map[string]bool)
	for i, r := range registers() {
		known[r.path] = true
		if i == 0 || p.text[r.path] != "" {
			found = append(found, p.register(r)...)
		}
	}
	for path := range p.text {
		if strings.HasPrefix(path, "doc/requirements") && !known[path] {
			found = append(found, path+": no register of this name is known")
		}
	}
	return found
}

// register finds what is wrong with the rows and the counts of one page.
func (p pages) register(r register) []string {
	l := &ledger{p: p, r: r, seen: make(map[int]int), count: make(map[string]int), says: make(map[string]int)}
	for n, line := range strings.Split(p.text[r.path], "\n") {
		row := cells(line)
		switch {
		case len(row) == 2:
			if rows, err := strconv.Atoi(row[1]); err == nil {
				l.says[row[0]] = rows
			}
		case len(row) > 0 && strings.HasPrefix(row[0], r.prefix+"-"):
			l.row(n+1, row)
		}
	}
	for id := 1; id <= r.last; id++ {
		if n := l.seen[id]; n != 1 {
			l.complain(0, "%s-%03d has %d rows, want one", r.prefix, id, n)
		}
	}
	for _, status := range append(slices.Clone(statuses), "all") {
		if says, ok := l.says[status]; !ok || says != l.count[status] {
			l.complain(0, "%q is counted as %d, the rows are %d", status, says, l.count[status])
		}
	}
	return l.found
}

func (l *ledger) complain(line int, format string, args ...any) {
	at := l.r.path
	if line > 0 {
		at = fmt.Sprintf("%s:%d", at, line)
	}
	l.found = append(l.found, at+": "+fmt.Sprintf(format, args...))
}

// row takes one requirement.
func (l *ledger) row(line int, row []string) {
	if len(row) != 5 || slices.Contains(row, "") {
		l.complain(line, "%s: want five cells, none of them empty", row[0])
		return
	}
	m := rowID.FindStringSubmatch(row[0])
	if m == nil || m[1] != l.r.prefix {
		l.complain(line, "%s is no id", row[0])
		return
	}
	id, _ := strconv.Atoi(m[2]) // three digits
	if id < 1 || id > l.r.last {
		l.complain(line, "%s is no id", row[0])
		return
	}
	l.seen[id]++
	status, reason, given := strings.Cut(row[3], ":")
	switch {
	case !slices.Contains(statuses, status):
		l.complain(line, "%s: status %q is none of %q", row[0], status, statuses)
		return
	case given != (status != statuses[0]) || given && strings.TrimSpace(reason) == "":
		l.complain(line, "%s: %q stands alone, and every other status gives its reason", row[0], statuses[0])
	case !l.shown(row[4]):
		l.complain(line, "%s: no test, script or page is named that shows it", row[0])
	}
	l.count[status]++
	l.count["all"]++
}

// shown reports whether a cell names anything that can be looked at.
func (l *ledger) shown(cell string) bool {
	return slices.ContainsFunc(quoted.FindAllStringSubmatch(cell, -1), func(m []string) bool {
		return docTest.MatchString(m[1]) || docPath.MatchString(m[1])
	})
}

// ourPages reads doc/.
func ourPages(t *testing.T) pages {
	t.Helper()
	const root = "../.."
	p := pages{tests: testsOf(ourTree(t)), text: make(map[string]string)}
	p.exists = func(path string) bool {
		_, err := os.Stat(filepath.Join(root, filepath.FromSlash(path)))
		return err == nil
	}
	files, err := filepath.Glob(root + "/doc/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p.text["doc/"+filepath.Base(file)] = string(text)
	}
	return p
}

func TestRequirementsNameTestsThatExist(t *testing.T) {
	p := ourPages(t)
	if first := registers()[0].path; p.text[first] == "" {
		t.Fatalf("there is no %s", first)
	}
	for _, found := range append(p.promises(), p.requirements()...) {
		t.Error(found)
	}
}

// madeUpPage is a page that is right: every requirement is met, and shown by
// one test.
func madeUpPage(r register) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| status | rows |\n|---|---|\n| met | %d |\n| in part | 0 |\n| not yet | 0 |\n| does not apply | 0 |\n| all | %[1]d |\n\n", r.last)
	b.WriteString("| id | section | requirement | status | what shows it |\n|---|---|---|---|---|\n")
	for id := 1; id <= r.last; id++ {
		fmt.Fprintf(&b, "| %s-%03d | 1 | a rule | met | `TestA` |\n", r.prefix, id)
	}
	return b.String()
}

func TestEachFaultOfThePagesIsCaught(t *testing.T) {
	const row = "| OI-007 | 1 | a rule | met | `TestA` |\n"
	for _, tt := range []struct {
		name     string
		old, new string // in the page
		want     string
	}{
		{"a page that is right", "", "", ""},
		{"another test that exists", "`TestA` |\n", "`one.FuzzB`, `testdata/e2e/a.txt` |\n", ""},
		{"a test that does not exist", row, strings.Replace(row, "TestA", "TestGone", 1), "names TestGone, which does not exist"},
		{"a test of another folder", row, strings.Replace(row, "TestA", "two.TestA", 1), "names two.TestA, which does not exist"},
		{"a name that several have", row, strings.Replace(row, "TestA", "FuzzB", 1), "say folder.Name"},
		{"a script that does not exist", row, strings.Replace(row, "TestA", "testdata/e2e/gone.txt", 1), "no such file"},
		{"a folder of testdata that does not exist", row, strings.Replace(row, "TestA", "auditor/testdata/gone", 1), "no such file"},
		{"what is no path of ours", "| id |", "A page `index.md` or `/tile/a.txt`, profile `env/1`.\n\n| id |", ""},
		{"a test that prose names", "| id |", "See `TestGone`.\n\n| id |", "names TestGone"},
		{"a row less", row, "", "OI-007 has 0 rows"},
		{"a row twice", row, row + row, "OI-007 has 2 rows"},
		{"an id beyond the last", row, row + strings.Replace(row, "007", "183", 1), "OI-183 is no id"},
		{"an id of another form", row, row + strings.Replace(row, "007", "7", 1), "OI-7 is no id"},
		{"a cell too few", row, row + "| OI-007 | 1 | met | `TestA` |\n", "want five cells"},
		{"an empty cell", row, row + strings.Replace(row, "a rule", "", 1), "want five cells"},
		{"a status that there is not", row, strings.Replace(row, "met", "nearly", 1), `status "nearly" is none of`},
		{"a status without its reason", row, strings.Replace(row, "met", "in part", 1), "gives its reason"},
		{"an empty reason", row, strings.Replace(row, "met", "not yet: ", 1), "gives its reason"},
		{"a reservation about what is met", row, strings.Replace(row, "met", "met: almost", 1), "stands alone"},
		{"nothing that shows it", row, strings.Replace(row, "`TestA`", "trust us", 1), "that shows it"},
		{"a wrong count", "| not yet | 0 |", "| not yet | 1 |", `"not yet" is counted as 1, the rows are 0`},
		{"a count that is left out", "| all | 182 |\n", "", `"all" is counted as 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			page, first := madeUpPage(registers()[0]), registers()[0].path
			if tt.old != "" && !strings.Contains(page, tt.old) {
				t.Fatalf("the page does not hold %q", tt.old)
			}
			p := pages{
				tests:  map[string][]string{"TestA": {"one"}, "FuzzB": {"one", "two"}},
				exists: func(path string) bool { return path == "testdata/e2e/a.txt" },
				text:   map[string]string{first: strings.Replace(page, tt.old, tt.new, 1)},
			}
			found := append(p.promises(), p.requirements()...)
			if tt.want == "" {
				checkOne(t, found, "")
				return
			}
			// One fault may also upset a count, so that there are several complaints.
			if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, tt.want) }) {
				t.Errorf("complaints %q, want one with %q", found, tt.want)
			}
		})
	}
}

// TestEveryRegisterIsReadAlike shows that a further page is held to its own
// ids, and that a page which no rule reads is noticed.
func TestEveryRegisterIsReadAlike(t *testing.T) {
	first, further := registers()[0], registers()[1]
	p := pages{tests: map[string][]string{"TestA": {"one"}}, exists: func(string) bool { return false }}
	for _, tt := range []struct {
		name string
		path string
		text string
		want string
	}{
		{"a further page that is right", further.path, madeUpPage(further), ""},
		{"a further page with the rows of the first", further.path, madeUpPage(first), "TCT-001 has 0 rows"},
		{"a further page that lost its last row", further.path, strings.Replace(madeUpPage(further), "| TCT-244 |", "| TCT-243 |", 1), "TCT-244 has 0 rows"},
		{"a page of another name", "doc/requirements-xyz.md", madeUpPage(further), "no register of this name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p.text = map[string]string{first.path: madeUpPage(first), tt.path: tt.text}
			found := append(p.promises(), p.requirements()...)
			if tt.want == "" {
				checkOne(t, found, "")
				return
			}
			if !slices.ContainsFunc(found, func(s string) bool { return strings.Contains(s, tt.want) }) {
				t.Errorf("complaints %q, want one with %q", found, tt.want)
			}
		})
	}
}
