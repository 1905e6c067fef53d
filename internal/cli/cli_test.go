package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

func TestEachCodeIsReached(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want Code
	}{
		{"no error", nil, OK},
		{"a code survives wrapping", fmt.Errorf("push: %w", Errorf(Refused, "no grant")), Refused},
		{"the first code given stays", With(IO, Errorf(Config, "bad")), Config},
		{"a full disk has its own", fmt.Errorf("write: %w", syscall.ENOSPC), DiskFull},
		{"a used up quota is one too", fmt.Errorf("write: %w", syscall.EDQUOT), DiskFull},
		{"anything else is I/O", fs.ErrNotExist, IO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := CodeOf(tt.err); got != tt.want {
				t.Errorf("CodeOf = %d, want %d", got, tt.want)
			}
		})
	}
}

func TestAnErrorIsOneSentenceOnStandardError(t *testing.T) {
	root := &cobra.Command{Use: "prog", RunE: func(*cobra.Command, []string) error {
		return With(Failed, errors.New("two\n  lines"))
	}}
	var b strings.Builder
	if code := Run(root, nil, &b); code != int(Failed) || b.String() != "prog: two; lines\n" {
		t.Errorf("Run = %d, %q", code, b.String())
	}
	b.Reset()
	if code := Run(root, []string{"--nonsense"}, &b); code != int(Usage) {
		t.Errorf("unknown flag: exit %d, want %d (%s)", code, Usage, b.String())
	}
}

func TestJoinedErrorsAreOneSentence(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"one error", errors.New("open x: no such file"), "open x: no such file"},
		{"two that were joined", errors.Join(errors.New("no answer"), errors.New("close: broken pipe")), "no answer; close: broken pipe"},
		{"a list below a title", errors.New("faults:\n\n  * one\n  * two"), "faults: * one; * two"},
		{"space within a line", errors.New("a \t b"), "a b"},
		{"no words", errors.New("\n"), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := sentence(tt.err); got != tt.want {
				t.Errorf("sentence = %q, want %q", got, tt.want)
			}
		})
	}
}
