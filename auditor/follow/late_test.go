package follow

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/translog/witness"
	"github.com/uzpif-oi/uzpif-oi/translog/witness/witnesstest"
)

func TestAFrozenLogIsStale(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	l.grow(10, nil)
	wantRules(t, l.follow(dir, nil))
	l.pass(2 * time.Hour) // not longer than two hours
	wantRules(t, l.follow(dir, nil))
	l.pass(time.Second)
	r := l.follow(dir, nil)
	wantRules(t, r, Stale)
	if len(alertFile(t, dir, r.Violations[0], "new.note")) == 0 {
		t.Error("there is no note")
	}
	// It is told once, and followed on when it comes back.
	l.pass(time.Hour)
	wantRules(t, l.follow(dir, nil), Stale)
	l.grow(5, nil)
	r = l.follow(dir, nil)
	wantRules(t, r, Stale)
	if r.Verified != 15 || r.Err != nil {
		t.Errorf("%+v", r)
	}
	check(t, os.RemoveAll(filepath.Join(dir, "alerts", r.Violations[0].Folder)))
	wantRules(t, l.follow(dir, nil))
}

func TestALogThatDoesNotAnswerIsStale(t *testing.T) {
	for _, path := range []string{"/checkpoint", "/signed-checkpoint.json", "/tile/entries"} {
		l, dir := newLiar(t, 1), t.TempDir()
		l.grow(10, nil)
		wantRules(t, l.follow(dir, nil))
		l.set(func() {
			l.answer = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
				if len(r.URL.Path) < len(path) || r.URL.Path[:len(path)] != path {
					return false
				}
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
		})
		l.grow(3, nil)
		l.pass(time.Hour)
		r := l.follow(dir, nil)
		wantRules(t, r)
		if r.Reason != Unavailable {
			t.Errorf("without %s: %+v", path, r)
		}
		l.pass(time.Hour + time.Second)
		l.refresh()
		wantRules(t, l.follow(dir, nil), Stale)
	}
}

func TestMissingWitnessesAreNoticed(t *testing.T) {
	l, dir := newLiar(t, 1), t.TempDir()
	ann, bob := witnesstest.New(t, "ann.example", l.card().Log.VKey, 1), witnesstest.New(t, "bob.example", l.card().Log.VKey, 2)
	policy, err := witness.ParsePolicy([]byte(ann.Line("ann", "") + bob.Line("bob", "") + "group both all ann bob\nquorum both\n"))
	check(t, err)
	cosigned := func(at time.Time, by ...*witnesstest.Witness) {
		l.set(func() {
			l.cosign = func(text string) string {
				lines := ""
				for _, w := range by {
					lines += w.Cosign(t, text, at)
				}
				return lines
			}
		})
	}
	round := func(cosignatures int, want ...Kind) {
		t.Helper()
		l.refresh()
		r := l.follow(dir, func(_ *Options, log *Log) { log.Witnesses = policy })
		wantRules(t, r, want...)
		if r.Err != nil || r.Cosignatures != cosignatures {
			t.Errorf("%d cosignatures, %v; want %d", r.Cosignatures, r.Err, cosignatures)
		}
	}
	l.grow(10, nil)
	cosigned(l.clock(), ann)
	round(1)
	l.pass(90 * time.Minute)
	cosigned(l.clock(), ann, bob)
	round(2)
	l.pass(2 * time.Hour)
	round(2) // two hours old, and not older
	l.pass(time.Second)
	round(0) // the quorum was there a second ago
	l.pass(2 * time.Hour)
	cosigned(l.clock(), ann)
	round(1, Unwitnessed)
	cosigned(l.clock(), ann, bob)
	round(2, Unwitnessed) // it stays until it is removed
	check(t, os.RemoveAll(filepath.Join(dir, "alerts")))
	round(2)
	// A cosignature over another text is none.
	l.pass(3 * time.Hour)
	l.set(func() {
		l.cosign = func(string) string {
			return ann.Cosign(t, "another\n", l.now) + bob.Cosign(t, "another\n", l.now)
		}
	})
	round(0, Unwitnessed)
}

func TestAPolicyForOtherLogsIsRefused(t *testing.T) {
	l := newLiar(t, 1)
	other := newLiar(t, 2)
	w := witnesstest.New(t, "ann.example", other.card().Log.VKey, 1)
	policy, err := witness.ParsePolicy([]byte("log " + other.card().Log.VKey + "\n" + w.Line("ann", "") + "quorum ann\n"))
	check(t, err)
	if _, err := Open(l.options(t.TempDir()), []Log{{URL: l.url, Card: l.card(), Witnesses: policy}}); err == nil {
		t.Error("a policy for another log is used")
	}
}
