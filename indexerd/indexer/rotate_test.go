package indexer

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

const nextOrigin = "search.example/indexer/2"

func (r *rig) config() Config { return Config{Dir: r.dir, Now: r.now} }

// rotate stops the indexer, rotates its log and starts it again. The publishers
// trust the new card.
func (r *rig) rotate(publishers ...*tester) Rotated {
	r.t.Helper()
	r.close()
	r.forward(time.Minute)
	done := must[Rotated](r.t)(Rotate(r.config(), RotateOptions{Origin: nextOrigin}))
	r.open()
	r.card = r.x.local.Card
	for _, p := range publishers {
		must[*identity.Peer](r.t)(p.trust.Add(r.card.Object.Raw, identity.AddOptions{Now: r.now()}))
	}
	return done
}

// fetch asks the public side.
func (r *rig) fetch(path string) (int, []byte) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.x.Public().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, must[[]byte](r.t)(io.ReadAll(w.Body))
}

func (r *rig) publishNow() {
	r.t.Helper()
	if err := r.x.tlog.Publish(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func TestEveryAddressMeansTheSameLogAfterARotation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s, c := p.held(3)
	r.publishNow()
	old, oldID := r.card, r.card.Object.ID
	grant := "/grant/" + s.pair.Grant.Object.ID.String() + ".json"
	before := map[string][]byte{}
	for _, path := range []string{"/checkpoint", "/tile/0/000.p/1", "/entry/0.json", "/signed-checkpoint/1.json", grant} {
		code, b := r.fetch(path)
		if code != http.StatusOK {
			t.Fatalf("%s: %d", path, code)
		}
		before[path] = b
	}
	c.close()
	done := r.rotate(p)
	if done.Continues.Origin != old.Log.Origin || done.Continues.Size != 1 || done.URL != old.Log.URL+logPath(done.VKey) || r.card.Log.URL != done.URL {
		t.Errorf("Rotate = %+v", done)
	}
	if code, _ := r.fetch(logPath(done.VKey) + grant); code != http.StatusNotFound {
		t.Errorf("the new log lists entries of the grant: %d", code)
	}
	c = p.session(s)
	c.push(s, puts("other words", urls(site, 1)...)...) // the same index, in the new log
	r.publishNow()
	for path, want := range before {
		for _, base := range []string{"", logPath(old.Log.VKey)} {
			if code, b := r.fetch(base + path); code != http.StatusOK || !bytes.Equal(b, want) {
				t.Errorf("%s%s is another now: %d %.60q", base, path, code, b)
			}
		}
		code, b := r.fetch(logPath(done.VKey) + path)
		if same := bytes.Equal(b, want); code != http.StatusOK || same != (path == grant) {
			t.Errorf("%s of the new log: %d, %.60q", path, code, b)
		}
	}
	if code, b := r.fetch("/card.json"); code != http.StatusOK || !bytes.Equal(b, r.card.Object.Raw) {
		t.Errorf("/card.json: %d", code)
	}
	if code, b := r.fetch("/card/" + oldID.String() + ".json"); code != http.StatusOK || !bytes.Equal(b, old.Object.Raw) {
		t.Errorf("the card that was replaced: %d", code)
	}
	if code, _ := r.fetch("/card/" + r.card.Object.ID.String() + ".json"); code != http.StatusNotFound {
		t.Errorf("the present card among those replaced: %d", code)
	}
	// What stands in the old log is read as before.
	for i, url := range urls(site, 3) {
		if err := r.readable(s, url); err != nil {
			t.Errorf("page %d: %v", i, err)
		}
	}
	rec, _, _ := r.stateOf(s)
	for i, want := range []uint32{1, 0, 0} {
		h := sha256.Sum256([]byte(urls(site, 3)[i]))
		var row catalogueRow
		if ok, err := readRow(r.x.store, sidKey('C', rec.SID, h[:]...), &row); !ok || err != nil || row.Log != want || row.Entry != 0 {
			t.Errorf("page %d stands at entry %d of log %d, want entry 0 of log %d; %v", i, row.Entry, row.Log, want, err)
		}
	}
	status := must[LogStatus](t)(r.x.LogStatus())
	if status.Origin != nextOrigin || status.Continues == nil || len(status.Ended) != 1 || status.Ended[0].URL != old.Log.URL || status.Size != 1 {
		t.Errorf("status %+v", status)
	}
}

func TestAPublisherIsLedFromTheOldLogToTheNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s, c := p.held(2)
	c.push(s, puts("more", site+"more")...)
	seen := r.x.tlog.Released()
	c.push(s, puts("more still", site+"more")...)
	c.close()
	end, key := r.x.tlog.Released().Tree, r.x.local.LogKey
	r.rotate(p)
	c = p.greetedWith(seen.Note)
	if len(c.welcome.Lineage) != 1 || len(c.welcome.Consistency) == 0 {
		t.Fatalf("lineage %d, consistency %d", len(c.welcome.Lineage), len(c.welcome.Consistency))
	}
	var body translog.Checkpoint
	if err := must[*envelope.Object](t)(envelope.Parse(c.welcome.Lineage[0])).DecodeBody(&body); err != nil {
		t.Fatal(err)
	}
	if body.Continues == nil || body.Continues.Tree() != end {
		t.Errorf("the new log continues %+v, want %+v", body.Continues, end)
	}
	if err := translog.VerifyConsistency(seen.Tree.Size, end.Size, pathOf(c.welcome.Consistency), seen.Tree.Root, end.Root); err != nil {
		t.Error(err)
	}
	c.close()
	// Notes by the old key that contradict the end are refused, and freeze
	// nothing: the old log has ended.
	forged := end
	forged.Size++
	other := seen.Tree
	other.Root[0] ^= 1
	stranger := translog.Tree{Origin: "stranger.example/log", Size: 1}
	for name, tree := range map[string]translog.Tree{"beyond the end": forged, "another root": other, "another log": stranger} {
		c := p.stream()
		note := must[[]byte](t)(translog.SignNote(tree, key))
		c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Hello{Hello: &oiv1.Hello{Versions: []string{sessionVersion}, Note: note}}})
		want := grants.ErrState
		if name == "another log" {
			want = grants.ErrMalformed
		}
		if f := c.next(); f.GetFault().GetReason() != string(want) {
			t.Errorf("%s: %v", name, f)
		}
		c.close()
	}
	p.session(s).push(s, puts("after all", site+"more")...)
}

func pathOf(raw [][]byte) [][32]byte {
	path := make([][32]byte, len(raw))
	for i := range raw {
		path[i] = [32]byte(raw[i])
	}
	return path
}

// TestAnAnswerOutlivesARotation asks once more for what was answered from the
// log that has ended.
func TestAnAnswerOutlivesARotation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s, revoked := p.series("docs-1", site, nil), p.series("blogs-1", blogs, nil)
	c := p.session(s, revoked)
	c.push(revoked, puts("words", blogs+"one")...)
	b := s.parcel(puts("words", urls(site, 4)...)...).pack()
	first := c.deliver(b)
	b.take()
	rev := p.revocation(revoked.pair.Grant.Revoke(grants.DispositionStop))
	acked := p.revoke(rev)
	c.push(s, puts("more", site+"more")...)
	c.close()
	end := r.x.tlog.Released().Tree
	r.rotate(p)
	again := p.revoke(rev)
	if len(acked.Acknowledged) != 1 || len(again.Acknowledged) != 1 || !proto.Equal(acked.Acknowledged[0], again.Acknowledged[0]) {
		t.Errorf("the acknowledgement is another now: %v", again)
	}
	c = p.session(s)
	for range 30 { // so that the new log is the larger one
		c.push(s, puts("more", site+"more")...)
	}
	answer := c.deliver(b)
	if !proto.Equal(first.Committed, answer.Committed) {
		t.Errorf("the answer is another one: %v", answer.Refused)
	}
	old := must[*translog.Log](t)(r.x.logOf(answer.Committed.Note))
	own := must[translog.Tree](t)(translog.OpenNote(answer.Committed.Note, old.VerifierKey()))
	if err := translog.VerifyConsistency(own.Size, end.Size, pathOf(answer.Consistency), own.Root, end.Root); err != nil {
		t.Errorf("from the receipt's tree of %d to the end of %d: %v", own.Size, end.Size, err)
	}
	c.push(s, puts("after it", site+"more")...) // the session stands in the new log
}

// TestARotationThatWasCutIsFinishedAtTheNextStart leaves one after each of its
// steps.
func TestARotationThatWasCutIsFinishedAtTheNextStart(t *testing.T) {
	t.Parallel()
	steps := []string{"begun", "log", "key", "card"}
	for n, last := range steps {
		t.Run(last, func(t *testing.T) {
			r := newRig(t)
			p := r.example()
			s, c := p.held(2)
			c.close()
			old := r.card
			r.close()
			o := RotateOptions{Origin: nextOrigin}
			begun := must[*identity.Rotation](t)(begin(r.config().withDefaults(), o))
			if n >= 1 {
				store := must[*durable.Store](t)(r.config().openStore())
				must[translog.Continues](t)(translog.Rotate(
					logConfig(r.config(), store, must[*identity.Local](t)(identity.Load(r.dir, r.now()))),
					translog.Successor{Origin: nextOrigin, NoteKey: begun.LogKey}))
				if err := store.Close(); err != nil {
					t.Fatal(err)
				}
			}
			if n >= 2 {
				if err := os.MkdirAll(filepath.Join(r.dir, "cards"), 0o700); err != nil {
					t.Fatal(err)
				}
				kept := filepath.Join(r.dir, "cards", strings.TrimPrefix(old.Object.ID.String(), "sha256:")+".json")
				if err := errors.Join(os.WriteFile(kept, old.Object.Raw, 0o644), os.Rename(filepath.Join(r.dir, "rotation/log.key"), filepath.Join(r.dir, "keys/log.key"))); err != nil {
					t.Fatal(err)
				}
			}
			if n >= 3 {
				if err := os.Rename(filepath.Join(r.dir, "rotation/identity.json"), filepath.Join(r.dir, "identity.json")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := Rotate(r.config(), RotateOptions{Origin: "search.example/other"}); !errors.Is(err, ErrRotation) {
				t.Errorf("another rotation meanwhile: %v", err)
			}
			r.open()
			r.card = r.x.local.Card
			if r.card.Object.ID != begun.Card.Object.ID || r.x.tlog.Origin() != nextOrigin || len(r.x.ended) != 1 {
				t.Errorf("log %s, card of %s", r.x.tlog.Origin(), r.card.Log.Origin)
			}
			if _, err := os.Stat(filepath.Join(r.dir, "rotation")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("rotation/ is left behind: %v", err)
			}
			must[*identity.Peer](t)(p.trust.Add(r.card.Object.Raw, identity.AddOptions{Now: r.now()}))
			p.session(s).push(s, puts("after", site+"more")...)
		})
	}
}

func TestARefusedRotationLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if _, err := Rotate(r.config(), RotateOptions{Origin: nextOrigin}); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("while the indexer runs: %v", err)
	}
	r.close()
	for name, o := range map[string]RotateOptions{
		"the same origin": {Origin: r.card.Log.Origin},
		"no origin":       {},
		"no URL":          {Origin: nextOrigin, LogURL: "ftp://log.example"},
	} {
		if done, err := Rotate(r.config(), o); err == nil {
			t.Errorf("%s: %+v", name, done)
		}
	}
	// The clock of the machine is behind what was signed.
	behind := r.config()
	behind.Now = func() time.Time { return r.now().Add(-30 * time.Minute) }
	if _, err := Rotate(behind, RotateOptions{Origin: nextOrigin}); !errors.Is(err, translog.ErrClock) {
		t.Errorf("with a clock that is behind: %v", err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "rotation")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("rotation/ is left behind: %v", err)
	}
	r.open()
	if r.x.tlog.Origin() != r.card.Log.Origin || len(r.x.ended) != 0 {
		t.Errorf("log %s", r.x.tlog.Origin())
	}
}

func TestAFrozenIndexerIsReadAndTakesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s, c := p.held(2)
	r.publishNow()
	size := r.x.tlog.Released().Tree.Size
	for _, reason := range []string{"", strings.Repeat("x", maxReason+1)} {
		if err := r.x.Freeze(reason); err == nil {
			t.Errorf("frozen for a reason of %d octets", len(reason))
		}
	}
	if err := r.x.Freeze("the key was seen"); err != nil {
		t.Fatal(err)
	}
	if err := r.x.Wait(t.Context()); !errors.Is(err, ErrFrozen) || !strings.Contains(err.Error(), "the key was seen") {
		t.Errorf("Wait = %v", err)
	}
	c.close()
	r.close()
	if x, err := Open(r.config()); !errors.Is(err, ErrFrozen) {
		t.Fatalf("Open = %v, %v", x, err)
	}
	frozen := r.config()
	frozen.Frozen = true
	x := must[*Indexer](t)(Open(frozen))
	if got := x.tlog.Released().Tree.Size; got != size {
		t.Errorf("%d entries, want %d", got, size)
	}
	if _, err := x.ownPayload(p.local.Name(), s.name, urls(site, 2)[0]); err != nil {
		t.Errorf("a page is not read any more: %v", err)
	}
	rev := p.revocation(s.pair.Grant.Revoke(grants.DispositionStop))
	for path, want := range map[string]int{"GET /checkpoint": 200, "GET /entry/0.json": 200, "GET /card.json": 200, "POST /revocation": 503} {
		method, path, _ := strings.Cut(path, " ")
		w := httptest.NewRecorder()
		x.Public().ServeHTTP(w, httptest.NewRequest(method, path, bytes.NewReader(rev.Object.Raw)))
		if w.Code != want {
			t.Errorf("%s: %d, want %d: %s", path, w.Code, want, w.Body)
		}
	}
	if status := must[LogStatus](t)(x.LogStatus()); status.Frozen == nil || status.Frozen.Reason != "the key was seen" || !status.Frozen.At.Equal(r.now()) {
		t.Errorf("status %+v", status.Frozen)
	}
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	// A frozen log may go on in another; what froze it is kept beside.
	done := must[Rotated](t)(Rotate(r.config(), RotateOptions{Origin: nextOrigin}))
	if kept, err := filepath.Glob(filepath.Join(r.dir, "*-"+frozenWord)); len(kept) != 1 || err != nil || done.Continues.Size != size {
		t.Errorf("kept %q, %v; %+v", kept, err, done)
	}
	if x, err := Open(frozen); err == nil {
		t.Errorf("a log that is not frozen was opened as one: %v", fmt.Sprint(x.Close()))
	}
	r.open()
}

func TestFreezingIsForOneProcessAtATime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := Freeze(r.config(), "in passing"); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("beside a running indexer: %v", err)
	}
	r.close()
	if err := Freeze(r.config(), "on purpose"); err != nil {
		t.Fatal(err)
	}
	f, err := ReadFrozen(r.dir)
	if err != nil || f.Reason != "on purpose" || f.File != frozenWord {
		t.Errorf("ReadFrozen = %+v, %v", f, err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, frozenWord), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := ReadFrozen(r.dir); err != nil || f == nil {
		t.Errorf("a file that cannot be read freezes nothing: %v", err)
	}
	if err := os.WriteFile(filepath.Join(r.dir, frozenNote), []byte("note"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(r.config()); !errors.Is(err, ErrFrozen) || !strings.Contains(err.Error(), "keep FROZEN.note as proof") {
		t.Errorf("Open = %v", err)
	}
	if err := errors.Join(os.Remove(filepath.Join(r.dir, frozenNote)), os.Remove(filepath.Join(r.dir, frozenWord))); err != nil {
		t.Fatal(err)
	}
	r.open()
}

// TestAnIndexerThatIsLookedAtDoesNothing lets a grant end while nothing runs: who
// looks at the store finds it as it was left, and leaves it so.
func TestAnIndexerThatIsLookedAtDoesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(2)
	c.close()
	before := must[Status](t)(r.x.Status())
	r.close()
	r.clock.Store(s.pair.Grant.Object.ExpiresAt.Add(time.Hour).Unix())
	look := r.config()
	look.ReadOnly = true
	for range 2 {
		x := must[*Indexer](t)(Open(look))
		got := must[Status](t)(x.Status())
		if got.TreeSize != before.TreeSize || got.Root != before.Root || got.Pages != 2 {
			t.Errorf("%d entries and %d pages, want %d and 2", got.TreeSize, got.Pages, before.TreeSize)
		}
		if err := x.tlog.Commit(t.Context(), &lookup{}); !errors.Is(err, translog.ErrReadOnly) {
			t.Errorf("Commit = %v", err)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	r.open()
	r.eventually("the end of the grant is logged", func() bool { return r.x.tlog.Released().Tree.Size > before.TreeSize })
}
