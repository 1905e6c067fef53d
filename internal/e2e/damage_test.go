package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"
)

// damage DIR PATTERN changes one bit in the middle of the largest file of a
// folder whose name matches.
func damage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: damage DIR PATTERN")
	}
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), args[1]))
	ts.Check(err)
	var largest string
	var size int64
	for _, f := range files {
		info, err := os.Stat(f)
		ts.Check(err)
		if info.Size() > size {
			largest, size = f, info.Size()
		}
	}
	if largest == "" {
		ts.Fatalf("no file %s in %s", args[1], args[0])
	}
	b, err := os.ReadFile(largest)
	ts.Check(err)
	b[len(b)/2] ^= 1
	ts.Check(os.WriteFile(largest, b, 0o600))
}

// exits CODE COMMAND… runs a command and compares its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit %d, want %s", code, args[0])
	}
}
