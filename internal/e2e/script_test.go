package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// root is the folder of the module.
const root = "../.."

// buildPrograms gives the folder with the programs, which the first test that
// asks builds beside the test's own program; go test makes and removes it.
func buildPrograms(t testing.TB) string {
	t.Helper()
	bin, err := builtOnce()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var builtOnce = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(filepath.Dir(self), "programs")
	args := []string{"build", "-o", bin + string(filepath.Separator)}
	if raceEnabled {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./publisherd", "./indexerd", "./auditor", "./internal/e2e/liar")...)
	cmd.Dir = root
	if !raceEnabled {
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as they are distributed
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

func TestScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "e2e")
}

// runScripts runs the scripts of one folder below testdata on the real programs.
func runScripts(t *testing.T, folder string) {
	t.Helper()
	bin := buildPrograms(t)
	site, err := filepath.Abs(filepath.Join(root, "testdata", "site"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(root, "testdata", folder),
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("SITE", site)
			for _, name := range []string{"OWN", "OWN2"} {
				address, err := pair.OwnAddress()
				if err != nil {
					return err
				}
				env.Setenv(name, address)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"addresses":  addresses,
			"commitall":  commitAll,
			"field":      field,
			"flip":       flip,
			"copysite":   copySite,
			"touchall":   touchAll,
			"digest":     digest,
			"until":      until,
			"terminate":  terminate,
			"atmost":     atMost,
			"edit":       edit,
			"keep":       keep,
			"damage":     damage,
			"exits":      exits,
			"mint":       mint,
			"thick":      thick,
			"handout":    handout,
			"handfolder": handFolder,
			"gateway":    gatewayAddress,
			"request":    request,
			"fetch":      printed,

			"postrevocations": postRevocations,
		},
	})
}

// printed prints what is served at a URL with 200.
func printed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fetch URL")
	}
	body, err := fetch(context.Background(), args[0])
	ts.Check(err)
	_, err = ts.Stdout().Write(body)
	ts.Check(err)
}

// addresses DIR waits for a daemon's run.json and sets those of LISTEN, PUBLIC
// and ADMIN that it tells.
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
	for name, addr := range map[string]string{"LISTEN": r.Listen, "PUBLIC": r.Public, "ADMIN": r.Admin} {
		if addr != "" {
			ts.Setenv(name, addr)
		}
	}
}

// field PATH WANT compares one value of the JSON line that was printed last. A
// path of names and numbers, joined by dots; "len" counts an array or object.
func field(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: field PATH WANT")
	}
	got := value(ts, args[0])
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s%s", args[0], got, map[bool]string{true: "not "}[neg], args[1])
	}
}

// terminate DIR sends SIGTERM to the daemon whose run.json is there.
func terminate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: terminate DIR")
	}
	var r struct{ PID int }
	b, err := os.ReadFile(filepath.Join(ts.MkAbs(args[0]), "run.json"))
	ts.Check(err)
	ts.Check(json.Unmarshal(b, &r))
	p, err := os.FindProcess(r.PID)
	ts.Check(err)
	ts.Check(p.Signal(syscall.SIGTERM))
}

// keep NAME PATH keeps one value of the JSON line that was printed last as $NAME.
func keep(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: keep NAME PATH")
	}
	ts.Setenv(args[0], value(ts, args[1]))
}

// value is one value of the JSON line that was printed last.
func value(ts *testscript.TestScript, path string) string {
	got, err := lookup(ts.ReadFile("stdout"), path)
	ts.Check(err)
	return got
}

// until PATH WANT -- COMMAND… runs a command again and again, for at most half
// a minute, until it succeeds and field PATH WANT holds; with !, until it does
// not hold.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 4 || args[2] != "--" {
		ts.Fatalf("usage: until PATH WANT -- COMMAND…")
	}
	deadline := time.Now().Add(30 * time.Second)
	for {
		got, err := "", ts.Exec(args[3], args[4:]...)
		if err == nil {
			got, err = lookup(ts.ReadFile("stdout"), args[0])
		}
		if err == nil && (got == args[1]) != neg {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s is still %s, want %s%s: %v", args[0], got, map[bool]string{true: "not "}[neg], args[1], err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// lookup finds a value in the last line of what was printed.
func lookup(stdout, path string) (string, error) {
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	d := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	for _, name := range strings.Split(path, ".") {
		var err error
		if v, err = step(v, name); err != nil {
			return "", err
		}
	}
	return fmt.Sprint(v), nil
}

func step(v any, name string) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if x, ok := v[name]; ok {
			return x, nil
		}
	case []any:
		if name == "len" {
			return len(v), nil
		}
		var i int
		if _, err := fmt.Sscan(name, &i); err == nil && i < len(v) {
			return v[i], nil
		}
	}
	return nil, fmt.Errorf("no %q", name)
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
		if same := bytes.Equal(kept, timeless(ts.ReadFile("stdout"))); same == neg {
			ts.Fatalf("same as %s: %t", args[1], same)
		}
		return
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: digest NAME | digest = NAME")
	}
	ts.Check(os.WriteFile(ts.MkAbs("kept-"+args[0]), timeless(ts.ReadFile("stdout")), 0o600))
}

// ofNow is what stands in a status of this moment: what the last look at the public
// log showed, where each session looks anew, and how a daemon's session stands.
var ofNow = regexp.MustCompile(`,"(log|session)":\{[^}]*\}`)

func timeless(output string) []byte {
	return ofNow.ReplaceAll([]byte(output), nil)
}

// atmost PATH N requires that a number of the last JSON line is at most N.
func atMost(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: atmost PATH N")
	}
	var got, limit float64
	_, err := fmt.Sscan(value(ts, args[0]), &got)
	ts.Check(err)
	_, err = fmt.Sscan(args[1], &limit)
	ts.Check(err)
	if got > limit {
		ts.Fatalf("%s is %v, want at most %v", args[0], got, limit)
	}
}

// edit DIR N adds a paragraph to N pages, spread over the folder.
func edit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: edit DIR N")
	}
	var n int
	_, err := fmt.Sscan(args[1], &n)
	ts.Check(err)
	var pages []string
	ts.Check(filepath.WalkDir(ts.MkAbs(args[0]), func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".html") {
			pages = append(pages, path)
		}
		return err
	}))
	done := 0
	for i := 0; i < len(pages) && done < n; i += len(pages) / n / 2 {
		b, err := os.ReadFile(pages[i])
		ts.Check(err)
		if j := bytes.Index(b, []byte("</h1>")); j > 0 {
			b = append(b[:j:j], append([]byte("</h1><p>A line of an edit.</p>"), b[j+5:]...)...)
			ts.Check(os.WriteFile(pages[i], b, 0o644))
			done++
		}
	}
	if done != n {
		ts.Fatalf("edited %d pages, want %d", done, n)
	}
}
