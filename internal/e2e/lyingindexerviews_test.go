package e2e

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// twoViews equivocates: one publisher is shown an entry
// that the other, and everybody, never sees. Within the sessions of each all is
// consistent.
func twoViews(t *testing.T, bin string) {
	t.Parallel()
	x := newLied(t, bin, 3)
	x.pushes(0)
	other := newWitnessing(t, x.l)

	var fork stage.Tree // what the victim is shown
	x.l.tell(&lie{frame: forged(func(f *forgery) {
		f.before = append(f.before, [32]byte{0xfe})
		f.packed = func(r *oiv1.BatchResult) { fork = append(fork[:0:0], f.tree...) }
	})})
	x.Write(0, "second")
	x.pushes(0)
	if line, _ := x.standing(liesName); line.Log == nil || line.Log.State != publisher.LogConsistent || line.LastCheckpoint != uint64(len(fork)) {
		t.Fatalf("while nobody can know: %+v", line.Log)
	}

	// From now on the victim is told that nothing has happened in its log.
	x.l.mu.Lock()
	x.l.hello = func(h *oiv1.Hello) { h.Note = nil }
	x.l.mu.Unlock()
	x.l.tell(&lie{frame: func(l *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		if w := f.GetWelcome(); w != nil {
			w.Note, w.Consistency = l.sign(fork), nil
		}
		return []*oiv1.IndexerFrame{f}
	}})
	var size uint64
	for _, words := range []string{"first", "second", "third"} {
		size = other.push(t, words)
	}
	x.l.published(t, max(size, uint64(len(fork))+1)) // all of it: another public note would be another proof
	contradicted(t, x)
	before, receipts := x.standing(liesName)
	x.Write(1, "third")
	results, errs, code := x.push()
	// The public log is asked while the batch is under way: whichever answers first
	// gives the lie away, since the batch's proof leads from no tree that was shown.
	given := func(words string) bool {
		return strings.Contains(words, "another log to the public") || strings.Contains(words, "proof check: consistency")
	}
	if code != failed || !given(errs) || results[pair.IndexerName].Sent != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
	line, held := x.standing(liesName)
	if line.Alarm == nil || line.Alarm.Reason != "split-view" && line.Alarm.Reason != "consistency" || line.Log.State != publisher.LogInconsistent {
		t.Errorf("status %+v, %+v", line.Alarm, line.Log)
	}
	// It is not dialled again, and moves no further.
	if _, errs, code = x.push(); code != failed || !strings.Contains(errs, "is not dialled until") && !strings.Contains(errs, "another log to the public") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if again, kept := x.standing(liesName); again.LastReceipt != line.LastReceipt || len(kept) != len(held) || len(held) > len(receipts)+1 || before.LastCheckpoint > again.LastCheckpoint {
		t.Errorf("it went on from %+v to %+v", line, again)
	}
	proofs, err := filepath.Glob(filepath.Join(x.Pub, "alarms", "*.json"))
	pair.Check(t, err)
	// A batch that was under way has its answer kept, and makes a public note of its own.
	notes := 0
	for _, name := range proofs {
		b, err := os.ReadFile(name)
		pair.Check(t, err)
		switch proof := string(b); {
		case strings.Contains(proof, "session_note") && strings.Contains(proof, "public_note"):
			notes++
		case !strings.Contains(proof, "\"answer\""):
			t.Errorf("the proof is %s", proof)
		}
	}
	if notes < 1 || notes > 2 || len(proofs) > notes+1 {
		t.Errorf("%d proofs are kept, %d of them two notes", len(proofs), notes)
	}
	other.push(t, "fourth")
}

// contradicted makes evidence that the public log contradicts: it is written, both
// notes are kept, once, and the command fails.
func contradicted(t *testing.T, x *lied) {
	t.Helper()
	file, alarms := filepath.Join(t.TempDir(), "evidence.json"), filepath.Join(x.Pub, "alarms", "*.json")
	for range 2 {
		cmd := exec.CommandContext(t.Context(), x.bin, "evidence", pair.PageURL(0), "--indexer", string(liesName), "-o", file, "--dir", x.Pub)
		out, err := cmd.CombinedOutput()
		if err == nil || cmd.ProcessState.ExitCode() != failed || !strings.Contains(string(out), "contradicts the receipt") {
			t.Errorf("evidence that the log contradicts: %v: %s", err, out)
		}
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	kept, err := filepath.Glob(alarms)
	pair.Check(t, err)
	if len(kept) != 1 {
		t.Errorf("%d alarms are kept", len(kept))
	}
	for _, name := range kept { // what follows counts its own
		pair.Check(t, os.Remove(name))
	}
}

// pushes is push, with the exit code that it has to have.
func (x *lied) pushes(want int) map[envelope.Name]publisher.Result {
	x.t.Helper()
	results, errs, code := x.push()
	if code != want {
		x.t.Fatalf("exit %d: %s", code, errs)
	}
	return results
}

// published waits until everybody is shown a tree of that size.
func (l *lyingIndexer) published(t *testing.T, size uint64) {
	t.Helper()
	for range 500 {
		if tree, err := translog.OpenNote(l.checkpoint(), l.local.Card.Log.VKey); err == nil && tree.Size >= size {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("the log is not published")
}

// checkpoint is the note that everybody is shown.
func (l *lyingIndexer) checkpoint() []byte {
	w := httptest.NewRecorder()
	(*l.public.Load()).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/checkpoint", nil))
	return w.Body.Bytes()
}

// A witnessing publisher is another one of the same indexer, which is told the
// truth.
type witnessing struct{ dir, site string }

func newWitnessing(t *testing.T, l *lyingIndexer) *witnessing {
	t.Helper()
	const name, origin = envelope.Name("spiffe://other.test/publisher"), "https://other.test"
	w := &witnessing{filepath.Join(t.TempDir(), "pub"), t.TempDir()}
	now := time.Now()
	local, err := identity.Create(w.dir, identity.Options{Identity: name, Role: identity.Publisher, Origins: []identity.Origin{origin}, Now: now})
	pair.Check(t, err)
	trust, err := identity.OpenTrust(filepath.Join(l.dir, "trust"), identity.TrustOptions{})
	pair.Check(t, err)
	_, err = trust.Add(local.Card.Object.Raw, identity.AddOptions{Origins: []identity.Origin{origin}, Now: now})
	pair.Check(t, err)
	trust, err = publisher.OpenTrust(w.dir)
	pair.Check(t, err)
	_, err = trust.Add(l.local.Card.Object.Raw, identity.AddOptions{Endpoint: l.address, Now: now})
	pair.Check(t, err)
	pair.Check(t, publisher.AddSource(w.dir, publisher.Source{Name: "site", Kind: "site", Location: w.site, BaseURL: origin + "/"}))
	scope, err := grants.PrefixScope(origin + "/")
	pair.Check(t, err)
	_, _, err = publisher.IssueGrant(w.dir, publisher.GrantRequest{
		Indexer: liesName, Source: "site", Scope: scope, Purposes: grants.Purposes{grants.SearchIndex}, Mode: grants.ModePush,
	}, now)
	pair.Check(t, err)
	return w
}

// push delivers its one page in other words, and gives the size of the log then.
func (w *witnessing) push(t *testing.T, words string) uint64 {
	t.Helper()
	html := "<!DOCTYPE html><html lang=en><title>Other</title><main><h1>Other</h1><p>It says " + words + ".</p></main>"
	pair.Check(t, os.WriteFile(filepath.Join(w.site, "a.html"), []byte(html), 0o644))
	pub, err := publisher.Open(publisher.Config{Dir: w.dir})
	pair.Check(t, err)
	defer pub.Close()
	results, err := pub.Push(t.Context(), publisher.PushOptions{})
	if err != nil || len(results) != 1 || results[0].Sent != 1 {
		t.Fatalf("the other publisher: %+v, %v", results, err)
	}
	return results[0].TreeSize
}

// noPublicLog hides the public side, and then freezes
// it.
func noPublicLog(t *testing.T, bin string) {
	t.Parallel()
	x := newLied(t, bin, 3)
	x.pushes(0)
	honest := *x.l.public.Load()
	var seen []string
	x.l.published(t, 1)
	frozen := string(x.l.checkpoint())
	for _, tt := range []struct {
		name    string
		handler http.HandlerFunc
		want    string
	}{
		{"nobody is there", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, publisher.LogUnreachable},
		{"it is a page of something else", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<h1>Welcome</h1>") }, publisher.LogUnreachable},
		{"it leads elsewhere", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, publisher.LogUnreachable},
		{"it is frozen", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, frozen) }, publisher.LogBehind},
		{"it is there", func(w http.ResponseWriter, r *http.Request) {
			if r.TLS != nil || r.Header.Get("Authorization") != "" || r.Header.Get("Cookie") != "" {
				seen = append(seen, r.URL.Path)
			}
			honest.ServeHTTP(w, r)
		}, publisher.LogConsistent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var h http.Handler = tt.handler
			x.l.public.Store(&h)
			x.Write(0, "words while "+tt.name)
			if results := x.pushes(0); results[liesName].Sent != 1 || results[pair.IndexerName].Sent != 1 {
				t.Errorf("%+v", results)
			}
			x.pushes(0) // the comparison is with what the session began with
			if line, _ := x.standing(liesName); line.Log == nil || line.Log.State != tt.want || line.Alarm != nil {
				t.Errorf("%+v, want %s", line.Log, tt.want)
			}
		})
	}
	if len(seen) > 0 {
		t.Errorf("it asked as somebody: %q", seen)
	}
}

// hangs puts something between the two that lets
// nothing through, or next to nothing.
func hangs(t *testing.T, bin string) {
	t.Parallel()
	x := newLied(t, bin, 3)
	x.pushes(0)
	for _, tt := range []struct {
		name    string
		through int // octets from the indexer that pass at once; the rest comes one by one
	}{
		{"no handshake", 0},
		{"a handshake one octet at a time", 1},
		{"a welcome one octet at a time", 3000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, before := x.standing(liesName)
			x.dial(trickling(t, x.l.address, tt.through))
			x.Write(0, "words behind "+tt.name)
			results, errs, code := x.push()
			if code != unavailable || results[pair.IndexerName].Sent != 1 {
				t.Errorf("exit %d: %s", code, errs)
			}
			if line, held := x.standing(liesName); len(held) != len(before) || line.Alarm != nil {
				t.Errorf("%d receipts, want %d; %+v", len(held), len(before), line)
			}
		})
	}
	x.dial(x.l.address)
	if results := x.pushes(0); results[liesName].Sent != 1 {
		t.Errorf("%+v", results[liesName])
	}
}

// dial makes the publisher dial address in place of the lying indexer's.
func (x *lied) dial(address string) {
	x.t.Helper()
	trust, err := publisher.OpenTrust(x.Pub)
	pair.Check(x.t, err)
	_, err = trust.Add(x.l.local.Card.Object.Raw, identity.AddOptions{Endpoint: address, Now: time.Now()})
	pair.Check(x.t, err)
}

// trickling passes everything on to address, and of what comes back so many
// octets at once, then one every 50 ms; none at all if through is 0.
func trickling(t *testing.T, address string, through int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	pair.Check(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", address)
			if err != nil {
				return
			}
			go func() {
				defer out.Close()
				io.Copy(out, in)
			}()
			go func() {
				defer in.Close()
				if through > 0 {
					io.CopyN(in, out, int64(through))
				}
				for one := make([]byte, 1); ; time.Sleep(50 * time.Millisecond) {
					n, err := out.Read(one[:min(through, 1)])
					if err != nil {
						return
					}
					if _, err := in.Write(one[:n]); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
