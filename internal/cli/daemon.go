package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"
)

// NewLogger writes text to a terminal and JSON elsewhere.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if IsTerminal(w) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// ListenSocket binds a socket that only its owner may open. A file left by a
// daemon that was killed is taken over: the store's lock has shown that none
// runs.
func ListenSocket(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

// maxConns bounds the connections to one listener at once.
const maxConns = 1024

// ServeHTTP serves h on l, by two goroutines of group, until end; then what is
// being answered has five seconds. l may be nil. read and write bound the time of
// one request and answer, 0 does not; a header may take ten seconds and 16 KiB
// in any case, a connection may idle for half a minute, and there are 1024 at once,
// beyond which they wait to be accepted.
func ServeHTTP(group *errgroup.Group, end context.Context, l net.Listener, h http.Handler, read, write time.Duration, log *slog.Logger) {
	if l == nil {
		return
	}
	header := 10 * time.Second
	if read > 0 {
		header = min(header, read)
	}
	s := &http.Server{
		Handler: h, ReadTimeout: read, WriteTimeout: write,
		ReadHeaderTimeout: header, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	if c, ok := h.(interface{ Configure(*http.Server) }); ok { // what only the handler knows it needs
		c.Configure(s)
	}
	group.Go(func() error {
		if err := s.Serve(netutil.LimitListener(l, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	group.Go(func() error {
		<-end.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(end), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			return s.Close()
		}
		return nil
	})
}

// Health serves /healthz, which answers as long as the process turns, and
// /readyz, which says why it is not ready.
func Health(ready func() error) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return mux
}
