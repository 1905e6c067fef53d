package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/equivocation"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// verifyPair is verify for a file with two objects that somebody signed for one
// place. It is signed or invalid: no log has a part in it.
func verifyPair(out io.Writer, path string, raw []byte, cards []*identity.Card, f verifyFlags) error {
	required := evaluate.Verdict(f.require)
	if !f.chosen {
		required = evaluate.Signed
	}
	if required != evaluate.Signed {
		return cli.Errorf(cli.Usage, "%s is of two objects that contradict each other, which is signed or invalid; --require %s asks for what it cannot be", path, required)
	}
	report := equivocation.Verify(raw, cards)
	print := func() error { return printPair(out, report) }
	if f.json {
		print = func() error { return cli.PrintJSON(out, report) }
	}
	if err := print(); err != nil {
		return cli.With(cli.IO, err)
	}
	return judge(path, report, required, nil)
}

func printPair(w io.Writer, r *evaluate.Report) error {
	meaning := "this is not evidence"
	if r.Verdict == evaluate.Signed {
		meaning = "both signatures are true, and the two objects exclude each other: an equivocation"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nChecks\n", r.Verdict, meaning)
	for i, c := range r.Checks {
		fmt.Fprintf(&b, "  %2d. %-7s  %s\n", i+1, c.Outcome, c.Text)
	}
	printList(&b, "Remarks", r.Reasons)
	printList(&b, "What this does not prove", r.NotProven)
	_, err := io.WriteString(w, safe(b.String()))
	return err
}
