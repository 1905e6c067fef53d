package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// socketDir is a folder whose path is short enough for a socket in it.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pub")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// withSocket answers every request by f on the socket of a folder.
func withSocket(t *testing.T, f func() ([]string, error)) *app {
	t.Helper()
	dir := socketDir(t)
	l, err := cli.ListenSocket(filepath.Join(dir, socketFile))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, socketFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v, %v; want 0600", info.Mode(), err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, f) })}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	return &app{dir: dir}
}

func TestErrorsKeepTheirCodesAcrossTheSocket(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		want cli.Code
	}{
		{"no error", nil, cli.OK},
		{"an indexer that is down", publisher.ErrUnavailable, cli.Unavailable},
		{"a refusal", &publisher.Refused{Reason: grants.ErrScope}, cli.Refused},
		{"a refusal of the moment", &publisher.Refused{Reason: grants.ErrNoGrant, RetryMS: 5}, cli.Temporary},
		{"a daemon that is about to end", publisher.ErrStopping, cli.Temporary},
		{"a receipt that does not hold", publisher.ErrProtocol, cli.Failed},
		{"no grant", publisher.ErrNothingToPush, cli.Config},
		{"a wrong command line", cli.Errorf(cli.Usage, "no"), cli.Usage},
		{"anything else", errors.New("disk"), cli.IO},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.err
			if err != nil {
				err = fmt.Errorf("outer: %w", err)
			}
			a := withSocket(t, func() ([]string, error) { return []string{"what was done before"}, err })
			v, got := ask(t.Context(), a, query[[]string]{method: http.MethodPost, path: "/"})
			if tt.err == nil {
				if got != nil {
					t.Errorf("error %v", got)
				}
			} else if got == nil || got.Error() != err.Error() || exitCode(got) != tt.want {
				t.Errorf("error %v with code %d, want %v with %d", got, exitCode(got), err, tt.want)
			}
			if len(v) != 1 || v[0] != "what was done before" {
				t.Errorf("value %q is lost", v)
			}
		})
	}
}

func TestADeadSocketIsInNobodysWay(t *testing.T) {
	dir := socketDir(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, socketFile), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	_, err = ask(t.Context(), &app{dir: dir}, query[[]string]{method: http.MethodGet, path: "/"})
	if c := exitCode(err); c != cli.Config { // of the store, that is: there is no configuration here
		t.Errorf("%v, code %d", err, c)
	}
}
