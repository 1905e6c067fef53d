package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// evidenceFlags is the command line of evidence.
type evidenceFlags struct {
	out, publisher, revocation, series string
	deletion                           bool
}

func newEvidence(a *app) *cobra.Command {
	var f evidenceFlags
	c := &cobra.Command{
		Use:   "evidence {URL | --revocation ID} -o FILE",
		Short: "Write the offline proof of what was decided about a page, or of a revocation",
		Long: "Evidence writes the file that publishers make of their receipts, from this side: what was decided last about\n" +
			"a page, with --deletion that it was deleted, or that its payload went at the end of its retention, and with\n" +
			"--revocation that a revocation was acknowledged. \"auditor verify\" checks it. It discloses one page and no\n" +
			"other. Of pages that were deleted no URL is kept here: whoever asks has to name the page.",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := f.values(args)
			if err != nil {
				return err
			}
			q, err := questionOf(values)
			if err != nil {
				return err
			}
			raw, err := ask(cmd.Context(), a, "/evidence?"+values.Encode(), func(x *indexer.Indexer) ([]byte, error) { return x.Evidence(q) })
			if err != nil {
				return cli.With(cli.Failed, err)
			}
			if f.out == "" || f.out == "-" {
				_, err = cmd.OutOrStdout().Write(raw)
				return err
			}
			return durable.WriteFile(f.out, raw, 0o644)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "output", "o", "", "file to write; standard output if none is named")
	fl.StringVar(&f.publisher, "publisher", "", "the publisher whose page is meant")
	fl.BoolVar(&f.deletion, "deletion", false, "of the deletion of the page")
	fl.StringVar(&f.revocation, "revocation", "", "of this revocation, and of no page")
	fl.StringVar(&f.series, "series", "", "the series that is meant, if there are several")
	return c
}

// values are the question, as the daemon is asked it.
func (f *evidenceFlags) values(args []string) (url.Values, error) {
	values := url.Values{"publisher": {f.publisher}, "series": {f.series}, "revocation": {f.revocation}}
	switch {
	case (f.revocation == "") == (len(args) == 0):
		return nil, cli.Errorf(cli.Usage, "name a page by its URL, or a revocation by its id with --revocation")
	case f.revocation != "" && f.deletion:
		return nil, cli.Errorf(cli.Usage, "--deletion goes with a page")
	case f.deletion:
		values.Set("deletion", "1")
	}
	if len(args) == 1 {
		if _, err := pageQuery(args[0], ""); err != nil {
			return nil, err
		}
		values.Set("url", args[0])
	}
	return values, nil
}

// questionOf reads the question again.
func questionOf(v url.Values) (q indexer.Question, err error) {
	q = indexer.Question{URL: v.Get("url"), Deletion: v.Has("deletion"), Series: v.Get("series")}
	if s := v.Get("publisher"); s != "" {
		if q.Publisher, err = envelope.ParseName(s); err != nil {
			return q, cli.With(cli.Usage, err)
		}
	}
	if s := v.Get("revocation"); s != "" {
		if q.Revocation, err = envelope.ParseHash(s); err != nil {
			return q, cli.With(cli.Usage, err)
		}
	}
	return q, nil
}

// serveEvidence answers the command on the socket.
func (d *daemon) serveEvidence(w http.ResponseWriter, r *http.Request) {
	answer(w, func() ([]byte, error) {
		q, err := questionOf(r.URL.Query())
		if err != nil {
			return nil, err
		}
		return d.x.Evidence(q)
	})
}
