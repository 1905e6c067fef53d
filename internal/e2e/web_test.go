package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/uzpif-oi/uzpif-oi/content/arc"
)

// handout FOLDER serves an export as ARC until the script ends, and sets WEB to
// the server's address. What is asked for, and how it was answered, goes to the
// file asked, a line each.
func handout(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: handout FOLDER")
	}
	root, err := os.OpenRoot(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { root.Close() })
	serveUntilEnd(ts, &arc.Handler{Dir: root, Served: noteAsked(ts)})
}

// handfolder FOLDER does as handout does with whatever files a folder has.
func handFolder(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: handfolder FOLDER")
	}
	files, served := http.FileServer(http.Dir(ts.MkAbs(args[0]))), noteAsked(ts)
	serveUntilEnd(ts, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &answer{ResponseWriter: w, status: http.StatusOK}
		files.ServeHTTP(a, r)
		served(r, a.status)
	}))
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

// noteAsked writes the file asked.
func noteAsked(ts *testscript.TestScript) func(r *http.Request, status int) {
	asked := ts.MkAbs("asked")
	var logMu sync.Mutex // guards the file asked
	return func(r *http.Request, status int) {
		logMu.Lock()
		defer logMu.Unlock()
		f, err := os.OpenFile(asked, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return // the script misses the line
		}
		defer f.Close()
		fmt.Fprintf(f, "%s %d\n", r.URL.Path, status)
	}
}

// serveUntilEnd sets WEB to the address of a server.
func serveUntilEnd(ts *testscript.TestScript, h http.Handler) {
	server := httptest.NewServer(h)
	ts.Defer(server.Close)
	ts.Setenv("WEB", server.Listener.Addr().String())
}
