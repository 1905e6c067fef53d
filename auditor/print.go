package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
)

// printReport writes a report for a person: the verdict first, then what it
// rests on, then what it does not show.
func printReport(w io.Writer, r *evaluate.Report) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Verdict, meaning(r.Verdict))
	if r.Facts != nil {
		b.WriteString("\n")
		printFacts(&b, r.Facts)
	}
	b.WriteString("\nChecks, by the steps of UZPIF-OI 9.1.4\n")
	step := evaluate.Step(0)
	for i, c := range r.Checks {
		if c.Step != step {
			step = c.Step
			fmt.Fprintf(&b, " Step %d: %s\n", step, step)
		}
		fmt.Fprintf(&b, "  %2d. %-7s  %s\n", i+1, c.Outcome, c.Text)
		if c.Detail != "" {
			fmt.Fprintf(&b, "               %s\n", c.Detail)
		}
	}
	printList(&b, "Remarks", r.Reasons)
	printList(&b, "What this does not prove", r.NotProven)
	_, err := io.WriteString(w, safe(b.String()))
	return err
}

func meaning(v evaluate.Verdict) string {
	switch v {
	case evaluate.Proven:
		return "signed, in the log, and the log's checkpoint is cosigned by witnesses or agrees with one obtained independently"
	case evaluate.Included:
		return "signed, and in the log under a checkpoint that the log signed"
	case evaluate.Signed:
		return "the signatures are true and agree with one another; that the log is append-only is not shown"
	}
	return "this is not evidence"
}

func printFacts(b *strings.Builder, f *evaluate.Facts) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(b, "  %-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	if f.URL == "" {
		line("grant", "%s (%s) as %s acknowledges, pages held: %d", f.Claim, f.Status, f.Indexer, f.EntryPages)
	} else {
		line("page", "%s", f.URL)
		line("was", "%s (%s) by %s", f.Claim, f.Status, f.Indexer)
	}
	if !f.RevokedAt.IsZero() {
		line("revoked", "%s, as the publisher signed", f.RevokedAt)
	}
	line("at", "%s, as the indexer signed", f.SignedAt)
	line("for", "%s", f.Publisher)
	line("purposes", "%s", strings.Join(f.Purposes, ", "))
	if !f.Digest.IsZero() {
		line("content", "%s", f.Digest)
	}
	force := "still in force"
	if f.GrantExpiredNow {
		force = "expired since"
	}
	line("grant", "%s, until %s, %s", f.GrantID, f.GrantExpiresAt, force)
	line("log", "%s, entry %d with %d pages, under a tree of %d entries", f.LogOrigin, f.EntryIndex, f.EntryPages, f.TreeSize)
}

func printList(b *strings.Builder, title string, items []string) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", title)
	for _, item := range items {
		fmt.Fprintf(b, "  - %s\n", item)
	}
}

// safe replaces what a file could use to deceive a terminal: control
// characters, and those that change the direction of text.
func safe(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return '�'
	}, s)
}
