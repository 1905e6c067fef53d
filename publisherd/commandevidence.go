package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// evidenceFlags is the command line of evidence.
type evidenceFlags struct {
	out, indexer, revocation, series string
	deletion, offline                bool
}

func newEvidence(a *app) *cobra.Command {
	var f evidenceFlags
	c := &cobra.Command{
		Use:   "evidence {URL | --revocation ID} -o FILE",
		Short: "Write the offline proof of what an indexer acknowledged about a page, or of a revocation",
		Long: "Evidence writes one file, by which a third party can check with \"auditor verify\" what the indexer signed:\n" +
			"the last thing that it acknowledged about a page (accepted, updated, excluded or deleted in a batch), with\n" +
			"--deletion that it deleted the page, also after a revocation, and with --revocation that it acknowledged\n" +
			"a revocation. The file discloses one page and no other; that of a revocation discloses none.\n\n" +
			"The log is asked at its public URL for cosignatures of its witnesses. If it contradicts what was receipted,\n" +
			"the file is written all the same, both checkpoints are kept in the folder alarms, and the exit code is 1.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := f.values(args)
			if err != nil {
				return err
			}
			raw, err := ask(cmd.Context(), a, query[[]byte]{
				method: http.MethodGet, path: "/evidence", values: values,
				store: func(p *publisher.Publisher) ([]byte, error) { return evidenceFor(p, values) },
			})
			if err != nil {
				return err
			}
			var split error
			if !f.offline {
				raw, err = publisher.Cosign(cmd.Context(), a.dir, raw, time.Now())
				if errors.Is(err, publisher.ErrSplitView) {
					split = err
				} else if err != nil {
					fmt.Fprintf(cmd.ErrOrStderr(), "The file holds the receipt's own checkpoint, without cosignatures: %v\n", err)
				}
			}
			if f.out == "" || f.out == "-" {
				_, err = cmd.OutOrStdout().Write(raw)
			} else {
				err = durable.WriteFile(f.out, raw, 0o644)
			}
			return errors.Join(err, split)
		}}
	fl := c.Flags()
	fl.StringVarP(&f.out, "output", "o", "", "file to write; standard output if none is named")
	fl.BoolVar(&f.offline, "offline", false, "do not ask the log for the cosignatures of its witnesses")
	fl.StringVar(&f.indexer, "indexer", "", "the indexer whose acknowledgement is meant")
	fl.BoolVar(&f.deletion, "deletion", false, "of the deletion of the page, also after a revocation")
	fl.StringVar(&f.revocation, "revocation", "", "of this revocation, and of no page")
	fl.StringVar(&f.series, "series", "", "with --revocation: the series, if it reached several")
	return c
}

// values are the question, as the daemon is asked it.
func (f *evidenceFlags) values(args []string) (url.Values, error) {
	switch {
	case (f.revocation == "") == (len(args) == 0):
		return nil, cli.Errorf(cli.Usage, "name a page by its URL, or a revocation by its id with --revocation")
	case f.revocation != "" && (f.deletion || f.indexer != ""), f.revocation == "" && f.series != "":
		return nil, cli.Errorf(cli.Usage, "--deletion and --indexer go with a page, --series with --revocation")
	case f.revocation != "":
		if _, err := envelope.ParseHash(f.revocation); err != nil {
			return nil, cli.With(cli.Usage, err)
		}
		return url.Values{"revocation": {f.revocation}, "series": {f.series}}, nil
	}
	values := url.Values{"url": {args[0]}}
	if f.indexer != "" {
		who, err := parseName(f.indexer)
		if err != nil {
			return nil, err
		}
		values.Set("indexer", string(who))
	}
	if f.deletion {
		values.Set("deletion", "1")
	}
	return values, nil
}

// evidenceFor answers the question.
func evidenceFor(p *publisher.Publisher, q url.Values) ([]byte, error) {
	switch who := envelope.Name(q.Get("indexer")); {
	case q.Has("revocation"):
		id, err := envelope.ParseHash(q.Get("revocation"))
		if err != nil {
			return nil, cli.With(cli.Usage, err)
		}
		return p.RevocationEvidence(id, q.Get("series"))
	case q.Has("deletion"):
		return p.DeletionEvidence(q.Get("url"), who)
	default:
		return p.Evidence(q.Get("url"), who)
	}
}
