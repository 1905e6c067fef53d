package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/status"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// statusFlags is the command line of status.
type statusFlags struct {
	keys, revocations          []string
	log, state, format, output string
	within                     time.Duration
	json, ended                bool
}

// maxRevocations is the most files of --revocation.
const maxRevocations = 1000

func statusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status GRANT_ID --log LOG_URL --key CARD.json",
		Short: "Tell all that a log says about one grant, confirmed by reading the whole log",
		Long: `Read a whole log, verify every entry, and tell what it says about one grant: what
was taken in, updated, refused and deleted under it and when, how revocations were
answered and how fast, what is missing, what came late, and which rules of the
log's profile are broken.

The log only names revocations. With --revocation, which takes the signed object or
evidence that holds it, times are told from its signing on, and an acknowledgement
or deletion that does not come is missed; give the publisher's card with a second
--key, by which it is verified.

With --state, a later run reads only what is new.

Exit code 0 means: the log names the grant, and nothing is missing, late or against
the rules.`,
		Example: `  auditor status sha256:… --log https://log.search.example --key indexer.json --state status
  auditor status sha256:… --log https://log.search.example --key indexer.json --format html -o report.html
  auditor status sha256:… --log https://log.search.example --key indexer.json --key publisher.json --revocation r.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runStatus(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.log, "log", "", "`URL` of the log")
	flags.StringArrayVar(&f.keys, "key", nil, "a trusted identity `card`: the indexer's, and the publisher's where revocations are given")
	flags.StringArrayVar(&f.revocations, "revocation", nil, "a `file` with a signed revocation, or with evidence of one; may be repeated")
	flags.StringVar(&f.state, "state", "", "a `folder` to go on from, and to remember in")
	flags.DurationVar(&f.within, "within", 24*time.Hour, "how long an acknowledgement, a deletion or the note of an expiry may take")
	flags.BoolVar(&f.ended, "ended", false, "the log has ended: do not ask for a new checkpoint")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON")
	flags.StringVar(&f.format, "format", "text", "`form` of the report: text, json or html, which is one page that stands by itself")
	flags.StringVarP(&f.output, "output", "o", "", "`file` to write; standard output if none is named")
	for _, name := range []string{"log", "key"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flags are declared some lines above
		}
	}
	return cmd
}

// runStatus writes the report, and returns an error if something is not as it has
// to be.
func runStatus(ctx context.Context, out, progress io.Writer, grant string, f statusFlags) error {
	if f.json {
		f.format = "json"
	}
	o, err := statusOptions(grant, f, time.Now())
	if err != nil {
		return err
	}
	log, err := remote.New(f.log, o.Card.Log.VKey, remote.Options{Agent: "uzpif-oi-auditor"})
	if err != nil {
		return cli.With(cli.Usage, err)
	}
	defer log.Close()
	if file, ok := progress.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		o.Progress = progressLine(file, time.Now)
	}
	report, err := status.Remote(ctx, log, o)
	if err != nil {
		return scanError(ctx, err)
	}
	var b bytes.Buffer
	switch f.format {
	case "json":
		err = cli.PrintJSON(&b, report)
	case "html":
		err = report.WriteHTML(&b)
	default:
		b.WriteString(safe(report.String()))
	}
	if err == nil {
		err = writeOutput(out, f.output, b.Bytes())
	}
	if err != nil {
		return cli.With(cli.IO, err)
	}
	if fault := report.Fault(); fault != "" {
		return cli.Errorf(cli.Failed, "grant %s: %s", o.Grant, safe(fault))
	}
	return nil
}

// scanError gives the error of a scan of a log its code.
func scanError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, remote.ErrUnavailable):
		return cli.With(cli.Unavailable, err)
	case errors.Is(err, lint.ErrState):
		return cli.With(cli.Usage, err)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return cli.With(cli.IO, err)
}

// writeOutput writes to a file, whole or not at all, or to standard output.
func writeOutput(out io.Writer, path string, b []byte) error {
	if path == "" || path == "-" {
		_, err := out.Write(b)
		return err
	}
	return durable.WriteFile(path, b, 0o644)
}

// statusOptions reads every file that the command line names.
func statusOptions(grant string, f statusFlags, now time.Time) (status.Options, error) {
	o := status.Options{State: f.state, Ended: f.ended, Within: f.within, Now: now}
	var err error
	switch {
	case f.format != "text" && f.format != "json" && f.format != "html":
		return o, cli.Errorf(cli.Usage, "--format %q: want text, json or html", f.format)
	case f.within < time.Second:
		return o, cli.Errorf(cli.Usage, "--within %s: want at least a second", f.within)
	case len(f.revocations) > maxRevocations:
		return o, cli.Errorf(cli.Usage, "%d files of --revocation, at most %d", len(f.revocations), maxRevocations)
	}
	if o.Grant, err = envelope.ParseHash(grant); err != nil {
		return o, cli.Errorf(cli.Usage, "grant: %w; give its id, as publisherd grant list prints it", err)
	}
	var publishers []*identity.Card
	for _, name := range f.keys {
		card, err := readCard(name)
		switch {
		case err != nil:
			return o, err
		case card.Role == identity.Publisher:
			publishers = append(publishers, card)
		case card.Log == nil || o.Card != nil:
			return o, cli.Errorf(cli.Usage, "--key %s: want the card of one indexer, which has a log, and those of publishers", name)
		default:
			o.Card = card
		}
	}
	if o.Card == nil {
		return o, cli.Errorf(cli.Usage, "give the indexer's card with --key: it names the key of the log")
	}
	for _, name := range f.revocations {
		rev, err := openRevocation(name, publishers, o.Card.Identity, now)
		if err != nil {
			return o, err
		}
		o.Revocations = append(o.Revocations, rev)
	}
	return o, nil
}

// readCard reads an identity card.
func readCard(name string) (*identity.Card, error) {
	raw, err := readFile(name, envelope.MaxSize)
	if err != nil {
		return nil, err
	}
	card, err := identity.AuthenticateCard([]byte(strings.TrimSuffix(string(raw), "\n")))
	if err != nil {
		return nil, cli.Errorf(cli.Failed, "%s is not an identity card: %w", name, err)
	}
	return card, nil
}

// openRevocation reads a signed revocation, or the one in an evidence file, and
// verifies it by the cards that were given.
func openRevocation(name string, publishers []*identity.Card, indexer envelope.Name, now time.Time) (*grants.Revocation, error) {
	raw, err := readFile(name, evaluate.MaxEvidence)
	if err != nil {
		return nil, err
	}
	raw = bytes.TrimSuffix(raw, []byte("\n"))
	if ev, err := evaluate.Parse(raw); err == nil {
		if len(ev.Revocation) == 0 {
			return nil, cli.Errorf(cli.Usage, "%s is evidence that holds no revocation", name)
		}
		raw = ev.Revocation
	}
	o, err := envelope.Parse(raw)
	if err != nil {
		return nil, cli.Errorf(cli.Failed, "%s is no signed revocation: %w", name, err)
	}
	for _, card := range publishers {
		if card.Identity != o.Signer {
			continue
		}
		rev, err := grants.OpenRevocation(raw, grants.Verifier{Keys: card, Now: now, Publisher: card.Identity, Indexer: indexer})
		if err != nil {
			return nil, cli.Errorf(cli.Failed, "%s: %w", name, err)
		}
		return rev, nil
	}
	return nil, cli.With(cli.Usage, fmt.Errorf("%s says that it is by %s; give its card with --key", name, o.Signer))
}
