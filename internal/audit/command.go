package audit

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

// Commands has each command below root that changing names, by its path without
// the program, written down in the folder *dir. One whose folder is not there yet
// makes it: that is written down when it is done. It returns the commands that are
// in neither of the two lists, so that none is forgotten.
func Commands(root *cobra.Command, dir *string, changing, reading []string) (unknown []string) {
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			each(sub)
		}
		path := strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), root.Name()), " ")
		switch {
		case c.RunE == nil || c.HasSubCommands():
		case slices.Contains(changing, path):
			c.RunE = written(c.RunE, root.Name(), path, dir)
		case !slices.Contains(reading, path):
			unknown = append(unknown, path)
		}
	}
	each(root)
	return unknown
}

// written is run, which is written down.
func written(run func(*cobra.Command, []string) error, program, path string, dir *string) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		l := &Log{Dir: *dir, Program: program, Now: time.Now}
		warn := func(err error) { fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", program, err) }
		if _, err := os.Stat(*dir); err != nil {
			err := run(cmd, args)
			if _, missing := os.Stat(*dir); missing == nil {
				return l.Do(Self(), path, given(cmd, args), warn, func() error { return err })
			}
			return err
		}
		return l.Do(Self(), path, given(cmd, args), warn, func() error { return run(cmd, args) })
	}
}

// given are the arguments and the flags that were said.
func given(cmd *cobra.Command, args []string) []string {
	all := slices.Clone(args)
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Name == "dir" || f.Name == "json" {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			all = append(all, "--"+f.Name+"="+v)
		}
	})
	return all
}

type peerKey struct{}

// Requests has each request to h that is not a GET or HEAD written down, with who
// is at the other end of the socket.
func (l *Log) Requests(h http.Handler, warn func(error)) *Requests { return &Requests{l, h, warn} }

// Requests is a handler of requests that are written down.
type Requests struct {
	log  *Log
	next http.Handler
	warn func(error)
}

// Configure has the server find out who is at the other end.
func (q *Requests) Configure(s *http.Server) { s.ConnContext = withPeer }

// withPeer keeps who is at the other end of a connection of Listener.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	a, ok := c.RemoteAddr().(peerAddr)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, a.who)
}

// Listener has each connection to a socket of the file system say who is at its
// other end. It says so in its remote address, since that is what is left of it when
// a connection has been wrapped.
func Listener(l net.Listener) net.Listener { return socket{l} }

type socket struct{ net.Listener }

func (s socket) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return peerConn{c, peerOf(c)}, nil
}

type peerConn struct {
	net.Conn
	who User
}

func (c peerConn) RemoteAddr() net.Addr { return peerAddr{c.Conn.RemoteAddr(), c.who} }

type peerAddr struct {
	net.Addr
	who User
}

// peerOf asks the system who is at the other end.
func peerOf(c net.Conn) User {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return Unknown()
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return Unknown()
	}
	who := Unknown()
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			who = User{UID: int(cred.Uid), PID: int(cred.Pid)}
		}
	})
	if err != nil || who.UID < 0 {
		return Unknown()
	}
	return named(who)
}

func (q *Requests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		q.next.ServeHTTP(w, r)
		return
	}
	who, ok := r.Context().Value(peerKey{}).(User)
	if !ok {
		who = Unknown()
	}
	answered := &answer{ResponseWriter: w}
	err := q.log.Do(who, r.Method+" "+r.URL.Path, nil, q.warn, func() error {
		q.next.ServeHTTP(answered, r)
		return answered.err()
	})
	if err != nil && answered.status == 0 {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// An answer is one whose status is noted.
type answer struct {
	http.ResponseWriter
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	return a.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answer) err() error {
	if a.status >= 400 {
		return fmt.Errorf("answered %d", a.status)
	}
	return nil
}
