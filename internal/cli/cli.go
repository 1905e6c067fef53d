// Package cli holds what the commands of all three programs share: the exit
// codes, the one sentence that an error becomes, and the printing of JSON
// lines. TestEachCodeIsReached shows that a wrapped error keeps its code.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"
)

// A Code is the exit status of a program.
type Code int

// The exit codes, after sysexits.h where it has one.
const (
	OK          Code = 0
	Failed      Code = 1  // a verification or a check failed
	Usage       Code = 2  // the command line is wrong
	DiskFull    Code = 10 // no room left
	Unavailable Code = 69 // the peer cannot be reached
	IO          Code = 74 // reading or writing went wrong
	Temporary   Code = 75 // try again
	Refused     Code = 77 // identity, grant or policy does not allow it
	Config      Code = 78 // the configuration is wrong
)

// An Error is an error with the exit code that it ends the program with.
type Error struct {
	Code Code
	Err  error
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error.
func Errorf(code Code, format string, args ...any) error {
	return &Error{code, fmt.Errorf(format, args...)}
}

// With gives err the exit code, unless it is nil or has one already.
func With(code Code, err error) error {
	var e *Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &Error{code, err}
}

// CodeOf is the exit code of err.
func CodeOf(err error) Code {
	var e *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &e):
		return e.Code
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return DiskFull
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Temporary
	}
	return IO
}

// Run executes root until it returns or a first SIGINT or SIGTERM has ended
// its context, prints an error as one sentence, and gives the exit code. A
// second signal ends the process at once.
func Run(root *cobra.Command, args []string, stderr io.Writer) int {
	return RunCoded(root, args, stderr, CodeOf)
}

// RunCoded is Run for a program with errors of its own: code gives them their
// exit codes.
func RunCoded(root *cobra.Command, args []string, stderr io.Writer, code func(error) Code) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the default action is back for the second signal
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetArgs(args)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return With(Usage, err) })
	err := root.ExecuteContext(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %s\n", root.Name(), sentence(err))
	}
	return int(code(usageOf(err)))
}

// usageOf gives cobra's own complaints about the command line their code.
func usageOf(err error) error {
	if err == nil {
		return nil
	}
	s := err.Error()
	for _, p := range []string{"unknown command", "required flag", "accepts ", "requires at least", "unknown flag", "unknown shorthand"} {
		if strings.HasPrefix(s, p) {
			return With(Usage, err)
		}
	}
	return err
}

// sentence puts err on one line. Errors that were joined, each on its own line,
// are told apart by a semicolon.
func sentence(err error) string {
	var b strings.Builder
	for line := range strings.Lines(err.Error()) {
		line = strings.Join(strings.Fields(line), " ")
		if line == "" {
			continue
		}
		switch said := b.String(); {
		case said == "":
		case strings.ContainsRune(":;,.", rune(said[len(said)-1])):
			b.WriteByte(' ')
		default:
			b.WriteString("; ")
		}
		b.WriteString(line)
	}
	return b.String()
}

// PrintJSON writes v as one line of JSON.
func PrintJSON(w io.Writer, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}
