package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

func newLog(a *app) *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Show, freeze or rotate the transparency log", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newLogStatus(a), newLogFreeze(a), newLogRotate(a))
	return c
}

func newLogStatus(a *app) *cobra.Command {
	return &cobra.Command{Use: "status", Short: "Show origin, key and tree of the log, and the logs before it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := ask(cmd.Context(), a, "/log", (*indexer.Indexer).LogStatus)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if a.json {
				return cli.PrintJSON(w, s)
			}
			fmt.Fprintf(w, "log %s at %s\nkey %s\n%d entries, root %s\npublished: %d entries, %s\n",
				s.Origin, s.URL, s.VKey, s.Size, s.Root, s.Published.Size, s.Published.IssuedAt)
			if s.Frozen != nil {
				fmt.Fprintf(w, "FROZEN since %s: %s\n", s.Frozen.At, s.Frozen.Reason)
			}
			if c := s.Continues; c != nil {
				fmt.Fprintf(w, "continues %s, which ended with %d entries, root %s\n", c.Origin, c.Size, c.Root)
			}
			for _, e := range s.Ended {
				fmt.Fprintf(w, "ended: %s at %s, %d entries\n", e.Origin, e.URL, e.Size)
			}
			return nil
		}}
}

func newLogFreeze(a *app) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use: "freeze --reason WORDS", Short: "Sign nothing more; a running daemon ends", Args: cobra.NoArgs,
		Long: "Freeze ends all signing at once: a daemon that runs stops with exit code 1, and none starts until\n" +
			"FROZEN.json is removed, or the log rotated. \"run --frozen\" serves the public side meanwhile.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if reason == "" {
				return cli.Errorf(cli.Usage, "say why with --reason")
			}
			running, err := tell(cmd.Context(), a, "/log/freeze", freezeRequest{reason})
			if !running {
				if _, err := loadConfig(a.dir); err != nil {
					return err
				}
				err = indexer.Freeze(indexer.Config{Dir: a.dir}, reason)
			}
			if err == nil {
				fmt.Fprintln(cmd.ErrOrStderr(), "The log is frozen: nothing is signed from now on.")
			}
			return err
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "why, for whoever finds it so")
	return c
}

// freezeRequest is the body of POST /log/freeze.
type freezeRequest struct {
	Reason string `json:"reason"`
}

// serveFreeze freezes the log of the running daemon.
func (d *daemon) serveFreeze(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 16<<10))
	var f freezeRequest
	if err == nil {
		err = json.Unmarshal(b, &f)
	}
	if err == nil {
		err = d.x.Freeze(f.Reason)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// tell posts v to the daemon of the folder. running is false if there is none.
func tell(ctx context.Context, a *app, path string, v any) (running bool, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return false, err
	}
	client := daemonClient(a.dir)
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://daemon"+path, bytes.NewReader(b))
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(io.LimitReader(resp.Body, 4<<10))
		return true, errors.Join(err, fmt.Errorf("the daemon answers: %s", b))
	}
	return true, nil
}

func newLogRotate(a *app) *cobra.Command {
	var o indexer.RotateOptions
	c := &cobra.Command{
		Use: "rotate --origin NEW", Short: "End this log for good and go on in a new one, with a new key", Args: cobra.NoArgs,
		Long: "Rotate publishes a final checkpoint, ends the log, and begins a new one under a new origin and a new\n" +
			"key, whose every signed checkpoint says what it continues. The old log stays served where it was. The\n" +
			"daemon must be stopped. Give the new card to every publisher: each has to trust it before it goes on.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			conf, err := loadConfig(a.dir)
			if err != nil {
				return err
			}
			witnesses, err := conf.openWitnesses(a.dir) // they cosign the final checkpoint too
			if err != nil {
				return err
			}
			if witnesses != nil {
				defer witnesses.Close()
			}
			r, err := indexer.Rotate(indexer.Config{Dir: a.dir, Witnesses: witnesses, FailClosed: conf.WitnessPolicy == policyClosed}, o)
			if errors.Is(err, durable.ErrLocked) {
				return cli.Errorf(cli.Temporary, "%w: stop the daemon, rotate, and start it again", err)
			}
			if err != nil {
				return err
			}
			if a.json {
				return cli.PrintJSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "log %s at %s\nkey %s\ncontinues %s, which ended with %d entries, root %s\nnew card, fingerprint %s\n",
				r.Origin, r.URL, r.VKey, r.Continues.Origin, r.Continues.Size, r.Continues.Root, r.Fingerprint)
			fmt.Fprintln(cmd.ErrOrStderr(), "Next: start the daemon, and give the new card to every publisher, for \"trust add\".")
			return err
		},
	}
	fl := c.Flags()
	fl.StringVar(&o.Origin, "origin", "", "origin of the new log, never used before")
	fl.StringVar(&o.LogURL, "log-url", "", "URL of the new log as others reach it; below that of the first log if it is not said")
	c.MarkFlagRequired("origin")
	return c
}
