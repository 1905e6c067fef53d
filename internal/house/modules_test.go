package house

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Before this release the canonicaliser accepts what is not JSON, and what is
// nested deep enough to overflow the stack.
const (
	canonicaliser        = "github.com/gowebpki/jcs"
	canonicaliserAtLeast = "v1.0.2"
)

// toolModules have a go.mod of their own, in tools/.
var toolModules = []string{"github.com/bufbuild/buf", "honnef.co/go/tools"}

// A module is one that some package or test of ours is linked with.
type module struct {
	Path, Version string
	Main          bool
	Replace       *module
}

// substituted finds, in go.mod, versions that are not what they should be.
func substituted(file *modfile.File) []string {
	var found []string
	for _, r := range file.Replace {
		found = append(found, fmt.Sprintf("go.mod: %s is replaced by %s", r.Old.Path, r.New.Path))
	}
	strict := false
	for _, r := range file.Require {
		for _, tool := range toolModules {
			if r.Mod.Path == tool {
				found = append(found, fmt.Sprintf("go.mod: %s belongs in tools/go.mod", tool))
			}
		}
		if r.Mod.Path == canonicaliser {
			strict = semver.Compare(r.Mod.Version, canonicaliserAtLeast) >= 0
		}
	}
	if !strict {
		found = append(found, fmt.Sprintf("go.mod: %s must be %s or later", canonicaliser, canonicaliserAtLeast))
	}
	return found
}

// misbuilt finds, among the linked modules, those that go.mod does not speak of:
// a workspace, a -modfile or a vendor folder can change what is built.
func misbuilt(linked []module) []string {
	var found []string
	for _, m := range linked {
		switch {
		case m.Main && m.Path != modulePath:
			found = append(found, fmt.Sprintf("%s is built as a main module beside ours", m.Path))
		case m.Replace != nil:
			found = append(found, fmt.Sprintf("%s is built from %s", m.Path, m.Replace.Path))
		case m.Path == canonicaliser && semver.Compare(m.Version, canonicaliserAtLeast) < 0:
			found = append(found, fmt.Sprintf("%s is built at %s, before %s", m.Path, m.Version, canonicaliserAtLeast))
		}
	}
	return found
}

// linkedModules asks the go command what it would build, tests included. One
// package that does not compile does not hide the others.
func linkedModules(t *testing.T) []module {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-deps", "-test", "-json=Module", "./...")
	list.Dir = "../.."
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var modules []module
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var listed struct{ Module *module }
		if err := dec.Decode(&listed); errors.Is(err, io.EOF) {
			return modules
		} else if err != nil {
			t.Fatal(err)
		}
		if listed.Module != nil {
			modules = append(modules, *listed.Module)
		}
	}
}

func TestModulesAreWhatTheyClaim(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse("go.mod", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	linked := linkedModules(t)
	seen := make(map[string]bool)
	for _, m := range linked {
		seen[m.Path] = true
	}
	if !seen[modulePath] || !seen[canonicaliser] {
		t.Errorf("go list names neither us nor %s among %d modules", canonicaliser, len(seen))
	}
	for _, broken := range append(substituted(file), misbuilt(linked)...) {
		t.Error(broken)
	}
}

func TestTheCanonicaliserRefusesWhatIsNotJSON(t *testing.T) {
	for _, tt := range []struct{ name, input string }{
		{"a number with a leading zero", `[01]`},
		{"a member that ends in the middle", `{"a":1,"b`},
		{"half of a surrogate pair", `["\ud800"]`},
		{"text after the value", `{}{}`},
		{"nesting deeper than any stack", strings.Repeat("[", 5_000_000)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if out, err := jcs.Transform([]byte(tt.input)); err == nil {
				t.Errorf("accepted as %.40q", out)
			}
		})
	}
}

func TestEachModuleRuleIsCaught(t *testing.T) {
	const good = "module m\nrequire github.com/gowebpki/jcs v1.0.2\n"
	for _, tt := range []struct {
		name  string
		gomod string
		wants string // part of the one complaint; "" for none
	}{
		{"the first strict release is enough", good, ""},
		{"a later one as well", "module m\nrequire github.com/gowebpki/jcs v1.10.0\n", ""},
		{"the one before is not", "module m\nrequire github.com/gowebpki/jcs v1.0.1\n", "v1.0.2 or later"},
		{"nor a pre-release of it", "module m\nrequire github.com/gowebpki/jcs v1.0.2-rc1\n", "v1.0.2 or later"},
		{"nor none at all", "module m\n", "v1.0.2 or later"},
		{"a replacement is noticed", good + "replace github.com/gowebpki/jcs => ../jcs\n", "is replaced by ../jcs"},
		{"a tool among our requirements is noticed", good + "require github.com/bufbuild/buf v1.75.0\n", "belongs in tools/go.mod"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := modfile.Parse("go.mod", []byte(tt.gomod), nil)
			if err != nil {
				t.Fatal(err)
			}
			checkOne(t, substituted(file), tt.wants)
		})
	}
	for _, tt := range []struct {
		name   string
		linked module
		wants  string
	}{
		{"our own module is built", module{Path: modulePath, Main: true}, ""},
		{"a required module is built as it is", module{Path: canonicaliser, Version: "v1.0.2"}, ""},
		{"an old canonicaliser is built", module{Path: canonicaliser, Version: "v1.0.1"}, "built at v1.0.1"},
		{"something is built from another folder", module{Path: "example.com/a", Version: "v1.0.0", Replace: &module{Path: "../a"}}, "built from ../a"},
		{"a workspace adds another main module", module{Path: "example.com/a", Main: true}, "beside ours"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkOne(t, misbuilt([]module{tt.linked}), tt.wants)
		})
	}
}
