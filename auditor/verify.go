package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/equivocation"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// verifyFlags is the command line of verify.
type verifyFlags struct {
	keys, checkpoints       []string
	log, require, witnesses string
	quorum                  int
	json, chosen            bool // chosen: --require was given
}

func verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify EVIDENCE.json|DIR --key CARD.json",
		Short: "Verify an evidence file, that of an equivocation, or the folder of an export",
		Long: `Verify an evidence file: what an indexer signed about one page.

The verdict is one of
  invalid   something in it is not true, or was changed: it is no evidence
  signed    the signatures are true and agree with one another
  included  the decision is also in the log, under a checkpoint that the log signed
  proven    that checkpoint was also cosigned by the witnesses that you name,
            or agrees with one that you obtained yourself

A file of an equivocation, two objects that somebody signed for one place, is
signed or invalid; give the card of whoever signed them.

The folder of an export is signed or invalid as well: its manifest, every file, and
the tree over its pages. Give the indexer's card.

Trusted is what --key names, and nothing else: give the indexer's identity card,
as you got it from the indexer and compared by its fingerprint. Without --log the
network is not used. With --log the log is asked only about a file that is
included, for its checkpoint and one proof.`,
		Example: `  auditor verify evidence.json --key indexer.json --require included
  auditor verify evidence.json --key indexer.json --key publisher.json --log https://log.search.example
  auditor verify evidence.json --key indexer.json --checkpoint note-from-a-friend.txt --json
  auditor verify evidence.json --key indexer.json --witnesses policy.txt --quorum 2`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.chosen = cmd.Flags().Changed("require")
			return verify(cmd.Context(), cmd.OutOrStdout(), args[0], f)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.keys, "key", nil, "a trusted identity `card`; the indexer's is required, the publisher's may be added")
	flags.StringVar(&f.log, "log", "", "`URL` of the log, to be asked for its checkpoint")
	flags.StringArrayVar(&f.checkpoints, "checkpoint", nil, "a `file` with a checkpoint note of the log that you obtained independently")
	flags.StringVar(&f.witnesses, "witnesses", "", "a `file` that names witnesses you trust: C2SP tlog-policy, of which URLs are not needed")
	flags.IntVar(&f.quorum, "quorum", 0, "how many of them must have cosigned; 0 takes the quorum of the file")
	flags.StringVar(&f.require, "require", string(evaluate.Proven), "the least `verdict` for exit code 0: proven, included or signed")
	flags.BoolVar(&f.json, "json", false, "print one line of JSON")
	if err := cmd.MarkFlagRequired("key"); err != nil {
		panic(err) // the flag is declared four lines above
	}
	return cmd
}

// verify prints the report, whatever its verdict, and returns an error unless
// the verdict is what was required.
func verify(ctx context.Context, out io.Writer, path string, f verifyFlags) error {
	required := evaluate.Verdict(f.require)
	if required == evaluate.Invalid || !required.Reaches(evaluate.Signed) {
		return cli.Errorf(cli.Usage, "--require %q: want proven, included or signed", f.require)
	}
	if f.log != "" {
		if err := remote.CheckURL(f.log); err != nil {
			return cli.With(cli.Usage, err)
		}
	}
	if exported.IsExport(path) {
		return verifyExport(out, path, f)
	}
	raw, o, err := readInputs(path, f, time.Now())
	if err != nil {
		return err
	}
	if equivocation.IsPair(raw) {
		return verifyPair(out, path, raw, o.Cards, f)
	}
	report := evaluate.Verify(ctx, raw, o)
	var unreachable error
	if f.log != "" && report.Verdict == evaluate.Included {
		report, unreachable = askLog(ctx, f.log, raw, o, report)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.json {
		err = cli.PrintJSON(out, report)
	} else {
		err = printReport(out, report)
	}
	if err != nil {
		return cli.With(cli.IO, err)
	}
	return judge(path, report, required, unreachable)
}

// judge turns the report into the command's own error.
func judge(path string, report *evaluate.Report, required evaluate.Verdict, unreachable error) error {
	switch {
	case report.Verdict.Reaches(required):
		return nil
	case unreachable != nil && report.Verdict.Reaches(evaluate.Included):
		return cli.Errorf(cli.Unavailable, "%s is %s, not %s: %w", path, report.Verdict, required, unreachable)
	case len(report.Reasons) == 0:
		return cli.Errorf(cli.Failed, "%s is %s, not %s", path, report.Verdict, required)
	}
	return cli.Errorf(cli.Failed, "%s is %s, not %s: %s", path, report.Verdict, required, safe(report.Reasons[0]))
}

// readInputs reads every file that the command line names.
func readInputs(path string, f verifyFlags, now time.Time) ([]byte, evaluate.Options, error) {
	o := evaluate.Options{Now: now}
	for _, name := range f.keys {
		card, err := readCard(name)
		if err != nil {
			return nil, o, err
		}
		o.Cards = append(o.Cards, card)
	}
	for _, name := range f.checkpoints {
		note, err := readFile(name, translog.MaxNote)
		if err != nil {
			return nil, o, err
		}
		o.Checkpoints = append(o.Checkpoints, note)
	}
	var err error
	if o.Witnesses, err = readWitnesses(f); err != nil {
		return nil, o, err
	}
	raw, err := readFile(path, evaluate.MaxEvidence)
	return raw, o, err
}

// readWitnesses is the policy of --witnesses and --quorum, nil without them.
func readWitnesses(f verifyFlags) (*witness.Policy, error) {
	if f.witnesses == "" {
		if f.quorum != 0 {
			return nil, cli.Errorf(cli.Usage, "--quorum %d: of which witnesses? Name them with --witnesses", f.quorum)
		}
		return nil, nil
	}
	file, err := readFile(f.witnesses, witness.MaxPolicy)
	if err != nil {
		return nil, err
	}
	p, err := witness.ParsePolicy(file)
	if err != nil {
		return nil, cli.Errorf(cli.Failed, "%s: %w", f.witnesses, err)
	}
	if f.quorum != 0 {
		if p, err = p.WithQuorum(f.quorum); err != nil {
			return nil, cli.Errorf(cli.Usage, "--quorum: %s: %w", f.witnesses, err)
		}
	}
	if p.None() {
		return nil, cli.Errorf(cli.Usage, "%s asks for no witness, which proves nothing; say how many with --quorum", f.witnesses)
	}
	return p, nil
}

// readFile reads at most limit octets: one more is not read, but refused.
func readFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, cli.With(cli.IO, err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, cli.With(cli.IO, err)
	}
	if int64(len(b)) > limit {
		return nil, cli.Errorf(cli.Failed, "%s is over %d octets, more than any such file has", path, limit)
	}
	return b, nil
}

// A log publishes what it receipted up to a second later: it is asked again in
// these intervals, for so long.
const (
	publishTime  = 5 * time.Second
	pollInterval = 250 * time.Millisecond
)

// askLog verifies again, with the log's own present checkpoint. The error is
// why the log did not answer; the report then stays as it was without it.
func askLog(ctx context.Context, base string, raw []byte, o evaluate.Options, offline *evaluate.Report) (*evaluate.Report, error) {
	log, err := remote.New(base, offline.VKey, remote.Options{Agent: "uzpif-oi-auditor"})
	if err != nil {
		return offline, err
	}
	defer log.Close()
	_, note, err := log.CheckpointOf(ctx, offline.Note.Size, publishTime, pollInterval)
	if errors.Is(err, remote.ErrUnavailable) || errors.Is(err, remote.ErrAbsent) {
		offline.Reasons = append(offline.Reasons, fmt.Sprintf("The log was asked and did not answer: %v.", err))
		return offline, err
	}
	if err != nil {
		offline.Reasons = append([]string{fmt.Sprintf("What %s shows is no checkpoint of this log: %v.", log.URL(), err)}, offline.Reasons...)
		return offline, nil
	}
	p := &provenance{log: log}
	o.Checkpoints, o.Prover = append(o.Checkpoints, note), p
	return evaluate.Verify(ctx, raw, o), p.unreachable
}

// provenance asks the log for proofs and remembers whether it could be reached.
type provenance struct {
	log         *remote.Client
	unreachable error
}

func (p *provenance) Consistency(ctx context.Context, from, to uint64) ([][32]byte, error) {
	path, err := p.log.Consistency(ctx, from, to)
	switch {
	case errors.Is(err, remote.ErrAbsent): // it answers, and does not stand by that size
		return nil, fmt.Errorf("%s does not publish a tree of %d entries", p.log.URL(), to)
	case errors.Is(err, remote.ErrUnavailable):
		p.unreachable = err
	}
	return path, err
}
