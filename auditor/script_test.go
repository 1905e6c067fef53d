package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/witness/witnesstest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"auditor": main})
}

// TestVerifyScripts runs the program over testdata/*.txt. Each script finds
// files and logs that are made anew here.
func TestVerifyScripts(t *testing.T) {
	s := stage.New(t, 1)
	files := makeFiles(t, s)
	fork := slices.Clone(s.Log)
	fork[2] = [32]byte{1}
	logs := map[string]http.Handler{
		"LOG":     serveLog(t, s, s.Log, sizes(s.Size())),
		"LATE":    serveLog(t, s, s.Log, sizes(0, 3, s.Size())),
		"FORK":    serveLog(t, s, fork, sizes(s.Size())),
		"NOPROOF": onlyCheckpoint(serveLog(t, s, s.Log, sizes(s.Size()))),
		"EVIL":    http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "\x1b[31mproven\x1b[0m\n") }),
		"BROKEN":  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }),
	}
	urls := map[string]string{}
	for name, h := range logs {
		server := httptest.NewServer(h)
		t.Cleanup(server.Close)
		urls[name] = server.URL
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	urls["GONE"] = gone.URL

	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			for name, url := range urls {
				env.Setenv(name, url)
			}
			for name, b := range files {
				if err := os.WriteFile(filepath.Join(env.WorkDir, name), b, 0o600); err != nil {
					return err
				}
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"json": jsonMember, "change": change, "exits": exits},
	})
}

// makeFiles makes evidence at a size that the log then outgrows.
func makeFiles(t *testing.T, s *stage.Stage) map[string][]byte {
	b := s.Offer(t, stage.Pages()...)
	a := s.Answer(t, b, 5, stage.Lie{})
	size := s.Size()
	seal := func(ev *evaluate.Evidence) []byte {
		raw, err := evaluate.Seal(ev)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	files := map[string][]byte{
		"accepted.json":  seal(s.Evidence(t, b, a, 0, size)),
		"excluded.json":  seal(s.Evidence(t, b, a, 4, size)),
		"same.note":      s.Note(t, size),
		"indexer.json":   append(bytes.Clone(s.Indexer.Card.Object.Raw), '\n'),
		"publisher.json": s.Publisher.Card.Object.Raw,
		"otherlog.json":  s.OtherLog(t).Object.Raw,
		"stranger.json":  stage.New(t, 2).Indexer.Card.Object.Raw,
		"large.json":     bytes.Repeat([]byte(" "), evaluate.MaxEvidence+1),
	}
	addWitnesses(t, s, files, seal, b, a)
	forked := slices.Clone(s.Log)
	forked[2] = [32]byte{1}
	files["fork.note"] = s.SignNote(t, forked.At(s.Origin(), size))
	files["deleted.json"] = seal(s.Deleted(t, b, 1, nil))
	s.Grow(20)
	files["later.note"] = s.Note(t, s.Size()-3)
	return files
}

// addWitnesses makes evidence whose note two of three witnesses cosigned.
func addWitnesses(t *testing.T, s *stage.Stage, files map[string][]byte, seal func(*evaluate.Evidence) []byte, b *stage.Batch, a evaluate.Answer) {
	ev := s.Evidence(t, b, a, 0, s.Size())
	text := ev.Note[:strings.LastIndex(ev.Note, "\n\n")+1]
	policy := ""
	for i := range 3 {
		w := witnesstest.New(t, fmt.Sprintf("w%d.example", i+1), s.Indexer.Card.Log.VKey, byte(i+1))
		policy += w.Line(fmt.Sprintf("W%d", i+1), "")
		if i < 2 {
			ev.Note += w.Cosign(t, text, s.Now)
		}
	}
	files["cosigned.json"] = seal(ev)
	files["two.policy"] = []byte(policy + "group G 2 W1 W2 W3\nquorum G\n")
	files["none.policy"] = []byte(policy + "quorum none\n")
}

// sizes is what a log publishes, one after the other; 0 is nothing.
func sizes(n ...uint64) func() uint64 {
	var asked atomic.Int64
	return func() uint64 { return n[min(int(asked.Add(1)), len(n))-1] }
}

// serveLog is the public side of a log, as far as an auditor asks.
func serveLog(t *testing.T, s *stage.Stage, tree stage.Tree, published func() uint64) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /checkpoint", func(w http.ResponseWriter, r *http.Request) {
		n := published()
		if n == 0 {
			http.NotFound(w, r)
			return
		}
		w.Write(s.SignNote(t, tree.At(s.Origin(), n)))
	})
	mux.HandleFunc("GET /proof/consistency", func(w http.ResponseWriter, r *http.Request) {
		from, err1 := strconv.ParseUint(r.FormValue("from"), 10, 64)
		to, err2 := strconv.ParseUint(r.FormValue("to"), 10, 64)
		if err1 != nil || err2 != nil || from > to || to > uint64(len(tree)) {
			http.NotFound(w, r)
			return
		}
		p := translog.ConsistencyProof{From: from, Hashes: translog.Hashes(tree.Consistency(from, to)), To: to}
		b, err := envelope.Canonical(&p)
		if err != nil {
			t.Error(err)
		}
		w.Write(b)
	})
	return mux
}

func onlyCheckpoint(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/proof") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// jsonMember compares one member of the JSON line that was printed last.
func jsonMember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: json PATH WANT")
	}
	out := ts.ReadFile("stdout")
	if strings.Count(out, "\n") != 1 {
		ts.Fatalf("%d lines, want one", strings.Count(out, "\n"))
	}
	var v any
	ts.Check(json.Unmarshal([]byte(out), &v))
	for name := range strings.SplitSeq(args[0], ".") {
		m, ok := v.(map[string]any)
		if !ok {
			ts.Fatalf("no object around %q", name)
		}
		v = m[name]
	}
	if got := fmt.Sprint(v); got != args[1] {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

// change flips one bit in the middle of a file.
func change(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: change FILE")
	}
	path := ts.MkAbs(args[0])
	b, err := os.ReadFile(path)
	ts.Check(err)
	b[len(b)/2] ^= 1
	ts.Check(os.WriteFile(path, b, 0o600))
}

// exits runs the program and compares its exit code. An error is one line.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: exits CODE ARG...")
	}
	err := ts.Exec("auditor", args[1:]...)
	code := 0
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit %d, want %s", code, args[0])
	}
	if lines := strings.Count(ts.ReadFile("stderr"), "\n"); lines != min(code, 1) {
		ts.Fatalf("%d lines of error at exit %d", lines, code)
	}
}
