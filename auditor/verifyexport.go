package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// verifyExport checks the folder of an export, which is signed or invalid.
func verifyExport(out io.Writer, path string, f verifyFlags) error {
	if f.chosen && evaluate.Verdict(f.require) != evaluate.Signed {
		return cli.Errorf(cli.Usage, "%s is an export, which is signed or invalid; --require %s asks for what it cannot be", path, f.require)
	}
	var cards []*identity.Card
	for _, name := range f.keys {
		card, err := readCard(name)
		if err != nil {
			return err
		}
		cards = append(cards, card)
	}
	r := exported.Verify(path, cards, time.Now())
	var err error
	if f.json {
		err = cli.PrintJSON(out, r)
	} else {
		err = printVerifiedExport(out, r)
	}
	switch {
	case err != nil:
		return cli.With(cli.IO, err)
	case r.Verdict != string(evaluate.Signed):
		return cli.Errorf(cli.Failed, "%s is %s: %s", path, r.Verdict, safe(strings.Join(r.Reasons, "; ")))
	case !r.UsableNow:
		return cli.Errorf(cli.Failed, "%s is signed, and over: %s", path, safe(strings.Join(r.Reasons, "; ")))
	}
	return nil
}

func printVerifiedExport(w io.Writer, r *exported.Report) error {
	var b strings.Builder
	m := &r.Manifest
	fmt.Fprintf(&b, "%s\n", r.Verdict)
	if r.Verdict == string(evaluate.Signed) {
		fmt.Fprintf(&b, "  by %s at %s, as %s for %s\n", m.Indexer, r.IssuedAt, m.Format, m.Purpose)
		fmt.Fprintf(&b, "  %d pages, root %s; %d files\n", m.Pages.Count, m.Pages.Root, m.Files)
		fmt.Fprintf(&b, "  log %s at %d entries, root %s\n", m.LogOrigin, m.Checkpoint.Size, m.Checkpoint.Root)
		fmt.Fprintf(&b, "  %d grants, %d policies\n", len(m.Grants), len(m.Policies))
		fmt.Fprintf(&b, "  to be made again before %s; nothing of it may be used from %s on\n", r.FirstEnd, m.Until)
	}
	for _, why := range r.Reasons {
		fmt.Fprintf(&b, "  %s\n", why)
	}
	_, err := io.WriteString(w, safe(b.String()))
	return err
}
