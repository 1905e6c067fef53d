package audit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/netutil"
	"golang.org/x/sys/unix"
)

func newLog(t *testing.T) *Log {
	return &Log{Dir: t.TempDir(), Program: "x", Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}
}

func events(t *testing.T, dir string) []Event {
	t.Helper()
	all, err := Recent(dir, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func noWarning(t *testing.T) func(error) {
	return func(err error) { t.Helper(); t.Errorf("warned: %v", err) }
}

func TestNothingChangesUnwritten(t *testing.T) {
	l := newLog(t)
	seen := 0
	if err := l.Do(User{UID: 7, PID: 8, Name: "ann"}, "grant revoke", []string{"g"}, noWarning(t), func() error {
		seen = len(events(t, l.Dir)) // on disk before it begins
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all := events(t, l.Dir)
	if seen != 1 || len(all) != 2 || all[0].Event != Ended || all[1].Event != Begun || all[1].User != "ann (uid 7)" || all[1].PID != 8 ||
		all[1].Action != "grant revoke" || all[1].At != "2027-01-15T08:00:00Z" || all[1].Args[0] != "g" {
		t.Errorf("%d before, then %+v", seen, all)
	}
	gone := &Log{Dir: filepath.Join(l.Dir, "nowhere"), Program: "x", Now: l.Now}
	if err := gone.Do(Self(), "grant revoke", nil, noWarning(t), func() error { seen++; return nil }); err == nil || seen != 1 {
		t.Errorf("done without a line: %v", err)
	}
	failed := errors.New("no\nsuch grant")
	if err := l.Do(Self(), "grant revoke", nil, noWarning(t), func() error { return failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	if last := events(t, l.Dir)[0]; last.Error != "no such grant" {
		t.Errorf("%+v", last)
	}
}

func TestAFullDiskStopsNoRevocation(t *testing.T) {
	l := newLog(t)
	l.full = &os.PathError{Op: "write", Path: File, Err: unix.ENOSPC}
	warned, done := 0, false
	err := l.Do(Self(), "grant revoke", nil, func(error) { warned++ }, func() error { done = true; return nil })
	if err != nil || !done || warned != 2 {
		t.Errorf("%v, done: %t, %d warnings", err, done, warned)
	}
}

func TestTheFilesAreBounded(t *testing.T) {
	l := newLog(t)
	l.most = 4000
	var all sync.WaitGroup
	for n := range 4 { // side by side, as commands beside a daemon are
		all.Go(func() {
			for i := range 100 {
				if err := l.write(Event{Event: Begun, Action: fmt.Sprintf("a-%d-%d", n, i)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	files, err := filepath.Glob(filepath.Join(l.Dir, File+"*"))
	if err != nil || len(files) != 1+keepFiles {
		t.Errorf("%q, %v", files, err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil || info.Size() > l.most || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v octets, %v", f, info, err)
		}
		b, err := os.ReadFile(f)
		if err != nil || bytes.Count(b, []byte("\n")) != bytes.Count(b, []byte(`{"at":`)) {
			t.Errorf("%s has torn lines (%v)", f, err)
		}
	}
}

func TestNoSecretOfAURLIsWritten(t *testing.T) {
	for arg, want := range map[string]string{
		"https://u:secret@h.test/a?token=secret#secret": "https://h.test/a (shortened)",
		"--location=https://u:secret@h.test/a":          "--location=https://h.test/a (shortened)",
		"https://h.test/a":                              "https://h.test/a",
		"--scope=https://h.test/":                       "--scope=https://h.test/",
		"http://%zz:secret@h/":                          "(a URL that cannot be read)",
		"words of a reason = some":                      "words of a reason = some",
		"trace_endpoint=https://u:secret@h.test":        "trace_endpoint=https://h.test (shortened)",
		"https://h.test/a?b=https://u:secret@h.test":    "https://h.test/a (shortened)",
	} {
		if got := shown([]string{arg})[0]; got != want {
			t.Errorf("%s: %q, want %q", arg, got, want)
		}
	}
	if got := shown(make([]string, 100)); len(got) != maxArgs+1 || got[maxArgs] != "and 68 more" {
		t.Errorf("%d arguments, %q", len(got), got[len(got)-1])
	}
	if got := shown([]string{strings.Repeat("é", 1000)})[0]; len(got) > maxArg+3 {
		t.Errorf("%d octets", len(got))
	}
}

func TestCommandsAreWrittenDown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	run := func(args ...string) error {
		root := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true}
		var all string
		command := func(name string, do func() error) *cobra.Command {
			c := &cobra.Command{Use: name, RunE: func(*cobra.Command, []string) error { return do() }}
			c.Flags().StringVar(&all, "reason", "", "")
			c.Flags().StringSlice("origin", nil, "")
			return c
		}
		grant := &cobra.Command{Use: "grant"}
		grant.AddCommand(command("revoke", func() error { return nil }), command("list", func() error { return nil }), command("new", func() error { return nil }))
		root.AddCommand(grant, command("init", func() error { return os.Mkdir(dir, 0o700) }))
		if unknown := Commands(root, &dir, []string{"grant revoke", "init"}, []string{"grant list"}); fmt.Sprint(unknown) != "[grant new]" {
			t.Errorf("unknown: %q", unknown)
		}
		root.SetArgs(args)
		return root.Execute()
	}
	for _, args := range [][]string{{"init"}, {"grant", "list"}, {"grant", "revoke", "g", "--reason=r", "--origin=https://a.test,https://b.test"}} {
		if err := run(args...); err != nil {
			t.Fatal(err)
		}
	}
	all := events(t, dir)
	if len(all) != 4 || all[3].Action != "init" || all[1].Action != "grant revoke" || fmt.Sprint(all[1].Args) != "[g --origin=https://a.test --origin=https://b.test --reason=r]" || !strings.Contains(all[1].User, fmt.Sprint(os.Getuid())) {
		t.Errorf("%+v", all)
	}
}

func TestRequestsAreWrittenDownWithWhoAsks(t *testing.T) {
	l := newLog(t)
	h := l.Requests(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/bad" {
			http.Error(w, "no", http.StatusTeapot)
		}
	}), noWarning(t))
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	h.Configure(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(netutil.LimitListener(Listener(listener), 8)) }() // bounded, as the daemons' is
	defer func() { server.Close(); <-served }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	for _, ask := range [][2]string{{"GET", "/status"}, {"POST", "/push"}, {"POST", "/bad"}} {
		req, err := http.NewRequestWithContext(t.Context(), ask[0], "http://daemon"+ask[1], nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	all := events(t, l.Dir)
	if len(all) != 4 || all[3].Action != "POST /push" || all[3].PID != os.Getpid() || !strings.Contains(all[3].User, fmt.Sprintf("uid %d", os.Getuid())) || all[0].Error != "answered 418" {
		t.Errorf("%+v", all)
	}
}

// TestNoOtherFileIsWritten leads the log to a file that is not its own.
func TestNoOtherFileIsWritten(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	for name, lead := range map[string]func(path string) error{
		"by a link":        func(path string) error { return os.Symlink(other, path) },
		"by a second name": func(path string) error { return os.Link(other, path) },
		"by a pipe":        func(path string) error { return unix.Mkfifo(path, 0o600) },
	} {
		l := newLog(t)
		if err := errors.Join(os.WriteFile(other, nil, 0o600), lead(filepath.Join(l.Dir, File))); err != nil {
			t.Fatal(err)
		}
		if err := l.write(Event{Event: Begun}); err == nil {
			t.Errorf("%s: written", name)
		}
		if b, err := os.ReadFile(other); err != nil || len(b) > 0 {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestWhatRootWritesIsTheFoldersOwners needs root to be of any use; without it, the
// owner is the same anyway.
func TestWhatRootWritesIsTheFoldersOwners(t *testing.T) {
	l := newLog(t)
	if os.Geteuid() == 0 {
		if err := os.Chown(l.Dir, 4711, 4712); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.write(Event{Event: Begun}); err != nil {
		t.Fatal(err)
	}
	var folder, file unix.Stat_t
	if err := errors.Join(unix.Stat(l.Dir, &folder), unix.Stat(filepath.Join(l.Dir, File), &file)); err != nil {
		t.Fatal(err)
	}
	if file.Uid != folder.Uid || file.Gid != folder.Gid {
		t.Errorf("the file is %d:%d's, the folder %d:%d's", file.Uid, file.Gid, folder.Uid, folder.Gid)
	}
}

func TestWhoCannotBeToldIsUnknown(t *testing.T) {
	l := newLog(t)
	if err := l.Do(Unknown(), "SIGHUP", nil, func(err error) { t.Error(err) }, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	all, err := Recent(l.Dir, 9)
	if err != nil || len(all) != 2 || all[0].User != "unknown" || all[1].Action != "SIGHUP" {
		t.Errorf("%v, %v", all, err)
	}
}

// TestThePageShowsAnActionOnce: how it ended stands beside what was begun.
func TestThePageShowsAnActionOnce(t *testing.T) {
	l := newLog(t)
	warn := func(err error) { t.Error(err) }
	do := func(action string, arg string, err error) {
		if got := l.Do(Self(), action, []string{arg}, warn, func() error { return err }); !errors.Is(got, err) {
			t.Fatal(got)
		}
	}
	do("push", "--indexer=a", nil)
	do("push", "--indexer=b", errors.New("no way"))
	if err := l.write(Event{Event: Begun, Action: "run", User: Self().String(), PID: os.Getpid()}); err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, row := range Section(l.Dir, l.Now()).Tables[0].Rows {
		got = append(got, []string{row[1], row[3]})
	}
	want := [][]string{{"run", "begun"}, {"push --indexer=b", "failed: no way"}, {"push --indexer=a", "done"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the page shows %q, want %q", got, want)
	}
}
