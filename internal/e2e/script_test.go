package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// root is the folder of the module.
const root = "../.."

// buildPrograms builds the three programs into a folder of their own.
func buildPrograms(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	args := []string{"build", "-o", bin + string(filepath.Separator)}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./publisherd", "./indexerd", "./auditor")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return bin
}

func TestScripts(t *testing.T) {
	bin := buildPrograms(t)
	site, err := filepath.Abs(filepath.Join(root, "testdata", "site"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(root, "testdata", "e2e"),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("SITE", site)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"addresses": addresses,
			"field":     field,
			"flip":      flip,
			"copysite":  copySite,
			"touchall":  touchAll,
			"digest":    digest,
		},
	})
}

// addresses DIR waits for a daemon's run.json and sets LISTEN, PUBLIC, ADMIN.
func addresses(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: addresses DIR")
	}
	var r struct{ Listen, Public, Admin string }
	deadline := time.Now().Add(60 * time.Second)
	for {
		b, err := os.ReadFile(filepath.Join(ts.MkAbs(args[0]), "run.json"))
		if err == nil && json.Unmarshal(b, &r) == nil {
			break
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s: no run.json: %v", args[0], err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	ts.Setenv("LISTEN", r.Listen)
	ts.Setenv("PUBLIC", r.Public)
	ts.Setenv("ADMIN", r.Admin)
}

// field PATH WANT compares one value of the JSON line that was printed last. A
// path of names and numbers, joined by dots; "len" counts an array or object.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: field PATH WANT")
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	d := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		ts.Fatalf("not JSON: %v", err)
	}
	for _, name := range strings.Split(args[0], ".") {
		v = step(ts, v, name)
	}
	got := fmt.Sprint(v)
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s%s", args[0], got, map[bool]string{true: "not "}[neg], args[1])
	}
}

func step(ts *testscript.TestScript, v any, name string) any {
	switch v := v.(type) {
	case map[string]any:
		if x, ok := v[name]; ok {
			return x
		}
	case []any:
		if name == "len" {
			return len(v)
		}
		var i int
		if _, err := fmt.Sscan(name, &i); err == nil && i < len(v) {
			return v[i]
		}
	}
	ts.Fatalf("no %q", name)
	return nil
}

// flip FILE OFFSET changes one bit of one octet.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE OFFSET")
	}
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	var at int
	_, err = fmt.Sscan(args[1], &at)
	ts.Check(err)
	b[at%len(b)] ^= 1
	ts.Check(os.WriteFile(path, b, 0o644))
}

// copysite DIR copies the small site of the tests, so that it may be edited.
func copySite(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: copysite DIR")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(ts.Getenv("SITE"))))
}

// touchall DIR gives every file a new time and leaves its octets alone.
func touchAll(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: touchall DIR")
	}
	now := time.Now()
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, now, now)
	}))
}

// digest NAME keeps the last standard output under NAME, or with !, requires
// that it differs from what was kept; "= NAME" requires that it is the same.
func digest(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) == 2 && args[0] == "=" {
		kept, err := os.ReadFile(ts.MkAbs("kept-" + args[1]))
		ts.Check(err)
		if same := bytes.Equal(kept, []byte(ts.ReadFile("stdout"))); same == neg {
			ts.Fatalf("same as %s: %t", args[1], same)
		}
		return
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: digest NAME | digest = NAME")
	}
	ts.Check(os.WriteFile(ts.MkAbs("kept-"+args[0]), []byte(ts.ReadFile("stdout")), 0o600))
}
