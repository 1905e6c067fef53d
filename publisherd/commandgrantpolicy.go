package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// readStatements reads the files of --from-policy, and tells what was
// understood and what was not, before anything is signed.
func readStatements(w io.Writer, files []string) ([]*publisher.Statement, error) {
	var all []*publisher.Statement
	for _, file := range files {
		s, err := publisher.ReadStatement(file)
		if err != nil {
			return nil, cli.With(cli.Config, err)
		}
		all = append(all, s)
	}
	printStatements(w, all)
	return all, nil
}

func printStatements(w io.Writer, all []*publisher.Statement) {
	for _, s := range all {
		fmt.Fprintf(w, "statement %s, %s, %s\n", s.File, s.Form, s.Digest)
		for _, line := range s.Says {
			fmt.Fprintf(w, "  says %s\n", line)
		}
		for _, line := range s.Ignored {
			fmt.Fprintf(w, "  ignored: %s\n", line)
		}
	}
}

// drawPurposes says what becomes of the purposes that were asked for.
func drawPurposes(w io.Writer, all []*publisher.Statement, wanted grants.Purposes) (grants.Purposes, error) {
	granted, notes, err := publisher.Draw(all, wanted)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		fmt.Fprintf(w, "publisherd: %s\n", n)
	}
	return granted, nil
}

// showDraft prints what a dry run would have signed. It has no id: what is signed
// in earnest has another.
func (a *app) showDraft(w io.Writer, r *publisher.Relationship) error {
	l := lineOf(r)
	if a.json {
		return cli.PrintJSON(w, struct {
			DryRun     bool                   `json:"dry_run"`
			Indexer    string                 `json:"indexer"`
			Collection string                 `json:"collection"`
			Purposes   []string               `json:"purposes"`
			Scope      []string               `json:"scope"`
			Words      []string               `json:"words"`
			Statements []*publisher.Statement `json:"statements"`
		}{true, string(l.Indexer), l.Collection, l.Purposes, l.Scope, l.Words, l.Statements})
	}
	fmt.Fprintf(w, "nothing is signed; this is what the grant would say of collection %s:\n", l.Collection)
	for _, line := range l.Words {
		fmt.Fprintf(w, "  %s\n", line)
	}
	return nil
}

// autoFlags are the flags of a renewal by itself.
type autoFlags struct{ within, during string }

// renew renews a grant, or has the daemon do it, or both.
func (a *app) renew(cmd *cobra.Command, id string, q publisher.RenewRequest, auto autoFlags) error {
	now := time.Now()
	within, err := parseSpan(auto.within, "off")
	if err != nil {
		return fmt.Errorf("--auto: %w", err)
	}
	during, err := parseSpan(auto.during, "")
	if err != nil {
		return fmt.Errorf("--auto-for: %w", err)
	}
	fl := cmd.Flags()
	if !fl.Changed("auto") && fl.Changed("auto-for") {
		return cli.With(cli.Usage, fmt.Errorf("--auto-for says how long --auto goes on; name both"))
	}
	changed := false
	for _, name := range []string{"for", "scope", "purpose", "policy", "from-policy"} {
		changed = changed || fl.Changed(name)
	}
	var rel *publisher.Relationship
	if changed || q.List != nil || !fl.Changed("auto") {
		var warnings []grants.Warning
		if rel, warnings, err = publisher.RenewGrant(a.dir, id, q, now); err != nil {
			return err
		}
		printWarnings(cmd.ErrOrStderr(), warnings)
		id = rel.Series
	}
	if fl.Changed("auto") {
		if rel, err = publisher.SetRenewal(a.dir, id, within, during, now); err != nil {
			return cli.With(cli.Usage, err)
		}
	}
	return a.showGrant(cmd.OutOrStdout(), rel)
}

// parseSpan reads a duration as Go writes it, or whole days, such as 14d. No
// text, and the word none, are 0.
func parseSpan(s, none string) (time.Duration, error) {
	if s == "" || s == none {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return 0, cli.With(cli.Usage, fmt.Errorf("%.40q is no length of time; want one like 14d or 36h%s", s, cmp.Or(map[bool]string{true: ", or " + none}[none != ""], "")))
	}
	return d, nil
}
