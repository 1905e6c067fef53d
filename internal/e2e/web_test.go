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
	asked := ts.MkAbs("asked")
	var logMu sync.Mutex // guards the file asked
	server := httptest.NewServer(&arc.Handler{Dir: root, Served: func(r *http.Request, status int) {
		logMu.Lock()
		defer logMu.Unlock()
		f, err := os.OpenFile(asked, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return // the script misses the line
		}
		defer f.Close()
		fmt.Fprintf(f, "%s %d\n", r.URL.Path, status)
	}})
	ts.Defer(func() {
		server.Close()
		root.Close()
	})
	ts.Setenv("WEB", server.Listener.Addr().String())
}
