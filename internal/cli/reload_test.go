package cli

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

type settings struct {
	Level string        `mapstructure:"log_level"`
	Addr  string        `mapstructure:"listen"`
	Wait  time.Duration `mapstructure:"wait"`
	other int
}

func TestChangesNamesEachKeyThatDiffers(t *testing.T) {
	from := settings{"info", "a:1", time.Second, 1}
	if got := Changes(from, settings{"info", "a:1", time.Second, 2}); len(got) > 0 {
		t.Errorf("Changes of the same = %v", got)
	}
	want := []Change{{"log_level", "info", "debug"}, {"wait", time.Second, time.Minute}}
	if got := Changes(from, settings{"debug", "a:1", time.Minute, 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("Changes = %v, want %v", got, want)
	}
}

// TestAReloadAppliesWhatItCan: a live setting is applied, another is told and kept
// waiting, each time; what cannot be read changes nothing.
func TestAReloadAppliesWhatItCan(t *testing.T) {
	var told bytes.Buffer
	var applied []settings
	next, failure := settings{}, error(nil)
	r := &Reloader[settings]{
		Log: slog.New(slog.NewTextHandler(&told, nil)), Config: settings{Level: "info", Addr: "a:1"}, Live: []string{"log_level"},
		Read: func() (settings, error) { return next, failure }, Apply: func(c settings) { applied = append(applied, c) },
	}
	for _, step := range []struct {
		name    string
		next    settings
		err     error
		applied int
		words   []string
	}{
		{"nothing changed", settings{Level: "info", Addr: "a:1"}, nil, 0, []string{"nothing changed"}},
		{"it cannot be read", settings{Level: "debug"}, errors.New("line 3"), 0, []string{"not reloaded", "line 3"}},
		{"one of each", settings{Level: "debug", Addr: "a:2"}, nil, 1, []string{`"setting changed" key=log_level from=info to=debug`, `"setting waits for a restart" key=listen from=a:1 to=a:2`}},
		{"the same again", settings{Level: "debug", Addr: "a:2"}, nil, 2, []string{`"setting waits for a restart" key=listen from=a:1 to=a:2`}},
		{"taken back", settings{Level: "debug", Addr: "a:1"}, nil, 2, []string{"nothing changed"}},
	} {
		told.Reset()
		next, failure = step.next, step.err
		r.reload()
		if len(applied) != step.applied {
			t.Errorf("%s: applied %d times, want %d", step.name, len(applied), step.applied)
		}
		for _, w := range step.words {
			if !strings.Contains(told.String(), w) {
				t.Errorf("%s: %q is not told in\n%s", step.name, w, &told)
			}
		}
	}
}

// TestAReloadIsWrittenDown before it changes anything, and changes nothing if it
// cannot be.
func TestAReloadIsWrittenDown(t *testing.T) {
	var applied []settings
	next, failure := settings{Level: "debug", Wait: time.Minute}, error(nil)
	type event struct {
		changes []string
		before  int // that were applied
		err     error
	}
	var written []event
	r := &Reloader[settings]{
		Log: slog.New(slog.DiscardHandler), Config: settings{Level: "info"}, Live: []string{"log_level", "wait"},
		Read: func() (settings, error) { return next, failure }, Apply: func(c settings) { applied = append(applied, c) },
	}
	r.Written = func(changes []string, reload func() error) error {
		e := event{changes: changes, before: len(applied)}
		e.err = reload()
		written = append(written, e)
		return e.err
	}
	r.reload()
	good := r.Last()
	if good.At.IsZero() || good.Problem != "" {
		t.Errorf("a reload that succeeded: %+v", good)
	}
	failure = errors.New("line 3")
	r.reload()
	if bad := r.Last(); bad.At != good.At || bad.Problem != "line 3" {
		t.Errorf("a reload that failed: %+v", bad)
	}
	want := []event{{[]string{"log_level=debug", "wait=1m0s"}, 0, nil}, {nil, 1, failure}}
	if !reflect.DeepEqual(written, want) || len(applied) != 1 {
		t.Errorf("written down: %v, want %v; applied %d times", written, want, len(applied))
	}
	failure, next = nil, settings{Level: "warn"}
	r.Written = func([]string, func() error) error { return errors.New("no audit log") }
	r.reload()
	if len(applied) != 1 || r.Config.Level != "debug" {
		t.Errorf("applied %d times, and it runs with %v, though it could not be written down", len(applied), r.Config)
	}
	if bad := r.Last(); bad.At != good.At || bad.Problem != "no audit log" {
		t.Errorf("a reload that could not be written down: %+v", bad)
	}
	r.Written = nil
	if r.reload(); r.Last().Problem != "" {
		t.Errorf("the fault is still told: %+v", r.Last())
	}
}

// TestTheServiceManagerIsTold of each step: ready, the watchdog as long as the
// daemon turns, a reload at SIGHUP, the end.
func TestTheServiceManagerIsTold(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "300000")
	wait := func(prefix string) {
		t.Helper()
		if err := l.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		for b := make([]byte, 1000); ; {
			n, err := l.Read(b)
			if err != nil {
				t.Fatalf("waiting for %s: %v", prefix, err)
			}
			if strings.HasPrefix(string(b[:n]), prefix) {
				return
			}
		}
	}
	turned := make(chan struct{})
	m := &Manager{Log: slog.New(slog.DiscardHandler), Turns: func() { turned <- struct{}{} }}
	r := &Reloader[settings]{Log: m.Log, Read: func() (settings, error) { return settings{Level: "debug"}, nil }, Live: []string{"log_level"}, Manager: m}
	hup := make(chan os.Signal, 1) // so that a signal before Run listens does not end the test
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	ctx, cancel := context.WithCancel(t.Context())
	reloaded, ended := make(chan settings, 1), make(chan error, 2)
	r.Apply = func(c settings) { reloaded <- c }
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- m.Run(ctx) }()
	m.Ready()
	wait("READY=1")
	<-turned
	wait("WATCHDOG=1")
	// Its second turn hangs in Turns until it is let go: the watchdog starves.
	if err := l.SetReadDeadline(time.Now().Add(400 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := l.Read(make([]byte, 100)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("fed while it hangs: %d octets, %v", n, err)
	}
	for len(reloaded) == 0 {
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	wait("RELOADING=1\nMONOTONIC_USEC=")
	wait("READY=1")
	cancel()
	go func() {
		for range turned {
		}
	}()
	wait("STOPPING=1")
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	close(turned)
}
