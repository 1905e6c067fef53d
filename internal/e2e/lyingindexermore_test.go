package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// unshown lies about pages that are asked for. Those pages are sent again; who
// cannot show them even then is stopped.
func unshown(t *testing.T, bin string) {
	t.Parallel()
	x := newLied(t, bin, 4)
	x.pushes(0)
	for _, tt := range []struct {
		name string
		lie  func(*oiv1.ProbeAnswer)
		once bool
		code int
		says string
	}{
		{"not held, once", func(a *oiv1.ProbeAnswer) { a.Proof, a.Refused = nil, "not-held" }, true, 0, `answers \"not-held\"`},
		{"a proof of something else, once", func(a *oiv1.ProbeAnswer) { a.Proof[0] ^= 1 }, true, 0, "of something else"},
		{"not held, for ever", func(a *oiv1.ProbeAnswer) { a.Proof, a.Refused = nil, "not-held" }, false, failed, "after it was sent again"},
		{"a proof of something else, for ever", func(a *oiv1.ProbeAnswer) { a.Proof[0] ^= 1 }, false, failed, "after it was sent again"},
		{"the nonce in place of a proof", func(a *oiv1.ProbeAnswer) { a.Proof = a.Nonce }, false, failed, "after it was sent again"},
		{"an answer to another probe", func(a *oiv1.ProbeAnswer) { a.Nonce = make([]byte, 32) }, false, failed, "something else than the page"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			left := 1
			x.l.tell(&lie{frame: shown(func(a *oiv1.ProbeAnswer) {
				if left--; left >= 0 || !tt.once {
					tt.lie(a)
				}
			})})
			x.Write(0, tt.name) // who brings something asks
			results, errs, code := x.push()
			x.l.tell(nil)
			if code != tt.code || !strings.Contains(errs, tt.says) {
				t.Errorf("exit %d: %s", code, errs)
			}
			if r := results[liesName]; tt.once && (r.Sent != 2 || len(r.Unshown) != 1 || r.Probes != 2) {
				t.Errorf("%+v", r)
			}
			if line, _ := x.standing(liesName); line.Alarm == nil || line.Alarm.Reason != "probe" && line.Alarm.Reason != "protocol" || line.Pages != 4 {
				t.Errorf("%+v, %+v", line, line.Alarm)
			}
			x.pushes(0)
			x.holdsWhatItWasGiven("")
		})
	}
}

// anotherState claims to hold one page only, which was never offered, with all
// that has to fit: it is brought to what the journal says, and no receipt is
// taken that was not given.
func anotherState(t *testing.T, bin string) {
	t.Parallel()
	x := newLied(t, bin, 3)
	x.pushes(0)
	never := pair.Origin + "/never.html"
	x.l.tell(&lie{frame: strangers(never, never)})
	_, errs, code := x.push()
	x.l.tell(nil)
	if code != refusedCode || !strings.Contains(errs, "state-mismatch") { // by the honest rest of it
		t.Errorf("exit %d: %s", code, errs)
	}
	if _, held := x.standing(liesName); len(held) != 1 {
		t.Errorf("%d receipts", len(held))
	}
	if r := x.pushes(0)[liesName]; r.Sent != 0 || len(r.Receipts) != 1 {
		t.Errorf("when the lie is over: %+v", r)
	}
	if line, _ := x.standing(liesName); line.Backlog != 0 || line.Pages != 3 {
		t.Errorf("when the lie is over: %+v", line)
	}
	x.holdsWhatItWasGiven("")
	x.EveryReceiptHolds()
}

// falseAcknowledgements lies about a revocation. Consent counts as withdrawn all
// the same.
func falseAcknowledgements(t *testing.T, bin string) {
	t.Parallel()
	x := newLied(t, bin, 3)
	x.pushes(0)
	line, _ := x.standing(liesName)
	revoked := false
	for i, tt := range []struct {
		name string
		lie  func(l *lyingIndexer, a *oiv1.Acknowledgements)
		says string
	}{
		{"of another revocation", func(_ *lyingIndexer, a *oiv1.Acknowledgements) { a.RevocationId[0] ^= 1 }, "another revocation"},
		{"of nothing", func(_ *lyingIndexer, a *oiv1.Acknowledgements) { a.Acknowledged = nil }, "is not acknowledged"},
		{"of another series", func(_ *lyingIndexer, a *oiv1.Acknowledgements) { a.Acknowledged[0].Series = "another" }, "no such series"},
		{"whose signature is spoilt", func(_ *lyingIndexer, a *oiv1.Acknowledgements) {
			a.Acknowledged[0].Acknowledgement = spoil(a.Acknowledged[0].Acknowledgement)
		}, "signature check: signature"},
		{"over other pages", acked(func(k *draft[translog.Acknowledgement]) { k.body.Count += 7 }), "entries"},
		{"under another grant", acked(func(k *draft[translog.Acknowledgement]) { k.body.GrantID[0] ^= 1 }), "grant"},
		{"of another policy", acked(func(k *draft[translog.Acknowledgement]) { k.body.PolicyHash[0] ^= 1 }), "policy"},
		{"for another publisher", acked(func(k *draft[translog.Acknowledgement]) { k.head.Audience = "spiffe://victim.test/publisher" }), "parties"},
		{"of a revocation that was not sent", acked(func(k *draft[translog.Acknowledgement]) { k.body.RevocationID[0] ^= 1 }), "revocation"},
		{"of a deletion that nobody asked for", acked(func(k *draft[translog.Acknowledgement]) { k.body.AckType = translog.DeleteAck }), "entries"},
		{"of another entry", acked(func(k *draft[translog.Acknowledgement]) { k.body.Entry.Index++ }), "entries|sequence"},
		{"from before the revocation", acked(func(k *draft[translog.Acknowledgement]) { k.head.IssuedAt = k.head.IssuedAt.Add(-10 * time.Minute) }), "time"},
		{"whose entry is not in the log", func(_ *lyingIndexer, a *oiv1.Acknowledgements) {
			a.Acknowledged[0].Inclusion = &oiv1.Path{Hashes: [][]byte{make([]byte, 32), make([]byte, 32), make([]byte, 32)}}
		}, "inclusion"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x.l.lied(func(a *oiv1.Acknowledgements) { tt.lie(x.l, a) })
			var errs string
			var code int
			if !revoked {
				out := exec.CommandContext(t.Context(), x.bin, "grant", "revoke", line.Series, "--disposition", "stop", "--dir", x.Pub)
				var stderr bytes.Buffer
				out.Stderr = &stderr
				_ = out.Run() // its exit code is looked at below
				errs, code, revoked = stderr.String(), out.ProcessState.ExitCode(), true
			} else {
				x.Write(0, "words while "+tt.name)
				var results map[string]publisher.Result
				results, errs, code = x.named()
				if results[string(pair.IndexerName)].Sent != 1 || results[string(liesName)].Sent != 0 {
					t.Errorf("%+v", results)
				}
			}
			if code != failed || !containsAny(errs, tt.says) {
				t.Errorf("exit %d, want it by %q: %s", code, tt.says, errs)
			}
			now, _ := x.standing(liesName)
			state := "disputed"
			if i == 0 { // it was no answer at all
				state = "pending"
			}
			if now.State != "revoked" || len(now.Revocations) != 1 || len(now.Revocations[0].Acknowledgements) != 0 || now.Revocations[0].State != state {
				t.Errorf("%+v", now)
			}
		})
	}
	x.l.lied(nil)
	x.pushes(0)
	now, _ := x.standing(liesName)
	if len(now.Revocations) != 1 || now.Revocations[0].State != "done" || len(now.Revocations[0].Acknowledgements) != 1 {
		t.Errorf("when the lies are over: %+v", now)
	}
}

func (x *lied) named() (map[string]publisher.Result, string, int) {
	results, errs, code := x.push()
	all := make(map[string]publisher.Result)
	for name, r := range results {
		all[string(name)] = r
	}
	return all, errs, code
}

func containsAny(s, alternatives string) bool {
	for _, a := range strings.Split(alternatives, "|") {
		if strings.Contains(s, a) {
			return true
		}
	}
	return false
}

// lied makes l lie about revocations from now on.
func (l *lyingIndexer) lied(how func(*oiv1.Acknowledgements)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ack = how
}

// acked signs a changed acknowledgement with the indexer's real key.
func acked(change func(*draft[translog.Acknowledgement])) func(*lyingIndexer, *oiv1.Acknowledgements) {
	return func(l *lyingIndexer, a *oiv1.Acknowledgements) {
		for _, k := range a.Acknowledged {
			d := draftOf[translog.Acknowledgement](l, k.Acknowledgement)
			change(&d)
			k.Acknowledgement = d.sign(l, l.local.Envelope).Raw
		}
	}
}

// unasked sends an answer twice to the daemon, which waits for nothing then. The
// agreement stops until the restart, and the other one goes on.
func unasked(t *testing.T, bin string) {
	t.Parallel()
	x := newLied(t, bin, 3)
	x.pushes(0)
	ctx, cancel := context.WithCancel(context.Background())
	daemon := exec.CommandContext(ctx, bin, "run", "--dir", x.Pub)
	var errs bytes.Buffer
	daemon.Stderr = &errs
	pair.Check(t, daemon.Start())
	defer func() {
		cancel()
		_ = daemon.Wait() // it was killed
	}()
	// Only then: a command that finds no daemon opens the store itself.
	for range 600 {
		if _, err := os.Stat(filepath.Join(x.Pub, "admin.sock")); err == nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	x.until("both are up to date", func(s publisher.Status) bool { return behind(s) == "" })
	x.l.tell(&lie{frame: func(_ *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		if f.GetProbeAnswer() != nil || f.GetBatchResult() != nil {
			return []*oiv1.IndexerFrame{f, proto.Clone(f).(*oiv1.IndexerFrame)}
		}
		return []*oiv1.IndexerFrame{f}
	}})
	x.Write(0, "second")
	x.until("the alarm", func(s publisher.Status) bool { return alarmOf(s) == "protocol" })
	x.Write(1, "third")
	x.until("the honest one to go on alone", func(s publisher.Status) bool {
		return behind(s) == string(liesName) && alarmOf(s) == "protocol"
	})
}

// until asks the running daemon.
func (x *lied) until(what string, ok func(publisher.Status) bool) {
	x.t.Helper()
	var last string
	for range 300 {
		out, err := exec.CommandContext(x.t.Context(), x.bin, "status", "--json", "--dir", x.Pub).Output()
		var s publisher.Status
		if err == nil && json.Unmarshal(out, &s) == nil && ok(s) {
			return
		}
		last = string(out)
		time.Sleep(100 * time.Millisecond)
	}
	x.t.Fatalf("waited in vain for %s: %s", what, last)
}

// behind names the indexers that have not got everything.
func behind(s publisher.Status) string {
	var all []string
	for _, i := range s.Indexers {
		if i.Backlog > 0 || i.Pages != 3 || i.State != "in-force" {
			all = append(all, string(i.Identity))
		}
	}
	return strings.Join(all, " ")
}

func alarmOf(s publisher.Status) string {
	for _, i := range s.Indexers {
		if i.Identity == liesName && i.Alarm != nil {
			return i.Alarm.Reason
		}
	}
	return ""
}
