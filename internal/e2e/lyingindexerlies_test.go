package e2e

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Exit codes of publisherd.
const (
	failed      = 1
	unavailable = 69
	temporary   = 75
	refusedCode = 77
)

// stranger is a key that no card lists.
func stranger(l *lyingIndexer) *envelope.Signer {
	_, key, err := ed25519.GenerateKey(nil)
	pair.Check(l.t, err)
	s, err := envelope.NewSigner(key)
	pair.Check(l.t, err)
	return s
}

// welcomeLies are told before the publisher has said anything of itself.
var welcomeLies = []lie{
	{"a version that is not spoken", welcomed(func(_ *lyingIndexer, w *oiv1.Welcome) { w.Version = "uzpif-oi-session/2" }), refusedCode, `refused \(version\)`, ""},
	{"a nonce that is too short", welcomed(func(_ *lyingIndexer, w *oiv1.Welcome) { w.Nonce = w.Nonce[:31] }), failed, "a nonce of 31 octets", "protocol"},
	{"limits that no batch can keep", welcomed(func(_ *lyingIndexer, w *oiv1.Welcome) { w.Limits.BatchItems = 0 }), failed, "limits that no batch", "protocol"},
	{"no limits", welcomed(func(_ *lyingIndexer, w *oiv1.Welcome) { w.Limits = nil }), failed, "limits that no batch", "protocol"},
	{"a note by another key", welcomed(func(l *lyingIndexer, w *oiv1.Welcome) {
		_, key, err := ed25519.GenerateKey(nil)
		pair.Check(l.t, err)
		w.Note, err = translog.SignNote(l.leaves.At(l.local.Card.Log.Origin, l.shown), key)
		pair.Check(l.t, err)
	}), failed, "signature check: note", "protocol"},
	{"a note that is none", welcomed(func(l *lyingIndexer, w *oiv1.Welcome) {
		w.Note = append([]byte(l.local.Card.Log.Origin+"\n"), bytes.Repeat([]byte("x\n"), 9000)...)
	}), failed, "signature check: note", "protocol"},
	{"a note of another log", welcomed(func(l *lyingIndexer, w *oiv1.Welcome) {
		var err error
		w.Note, err = translog.SignNote(l.leaves.At("elsewhere.test/log", l.shown), l.local.LogKey)
		pair.Check(l.t, err)
	}), refusedCode, `refused \(unknown-peer\)`, ""},
	{"a fork at the same size", welcomed(func(l *lyingIndexer, w *oiv1.Welcome) { w.Note = l.sign(l.fork()) }), failed, "consistency", "protocol"},
	{"a fork that has grown, with its own proof", welcomed(func(l *lyingIndexer, w *oiv1.Welcome) {
		tree := append(l.fork(), [32]byte{1}, [32]byte{2})
		w.Note, w.Consistency = l.sign(tree), octets(tree.Consistency(uint64(len(l.leaves)), uint64(len(tree))))
	}), failed, "consistency", "protocol"},
	{"a log that is rolled back", welcomed(func(l *lyingIndexer, w *oiv1.Welcome) {
		n := uint64(len(l.leaves))
		w.Note, w.Consistency = l.sign(l.leaves[:n-1]), octets(l.leaves.Consistency(n-1, n))
	}), failed, "fewer entries than", "protocol"},
	{"a proof of another size", welcomed(func(l *lyingIndexer, w *oiv1.Welcome) {
		tree := append(l.leaves[:len(l.leaves):len(l.leaves)], [32]byte{1}, [32]byte{2})
		w.Note, w.Consistency = l.sign(tree), octets(tree.Consistency(uint64(len(l.leaves))-1, uint64(len(tree))))
	}), failed, "consistency", "protocol"},
	{"a proof of hashes that are none", welcomed(func(_ *lyingIndexer, w *oiv1.Welcome) { w.Consistency = [][]byte{make([]byte, 33)} }), failed, "a hash of 33 octets", "protocol"},
	{"a proof without end", welcomed(func(_ *lyingIndexer, w *oiv1.Welcome) {
		w.Consistency = octets(make([][32]byte, 10_000))
	}), failed, "10000 hashes", "protocol"},
	{"a grant of ours that is newer than ours", welcomed(func(_ *lyingIndexer, w *oiv1.Welcome) {
		w.Series[0].Grant = &oiv1.Position{Epoch: 9, Sequence: 9, ObjectId: make([]byte, 32)}
	}), failed, "has seen a later grant", ""},
	{"an answer in place of a welcome", at(func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		return []*oiv1.IndexerFrame{{Frame: &oiv1.IndexerFrame_RangeAnswer{RangeAnswer: &oiv1.RangeAnswer{}}}}
	}, isWelcome), failed, "no welcome", "protocol"},
}

// claimLies are about what the indexer holds.
var claimLies = []lie{
	{"nothing of a series that it admits", at(changed(func(_ *lyingIndexer, f *oiv1.IndexerFrame) { f.GetAnnounceResult().Collections = nil }), isAnnounced), failed, "no state of series", "protocol"},
	{"a state root of its own choosing", claimed(func(c *oiv1.CollectionState) { c.StateRoot[0] ^= 1 }), failed, "another state than its receipt says", "protocol"},
	{"no state at all under its own receipt", claimed(func(c *oiv1.CollectionState) { c.StateRoot = nil }), failed, "another state than its receipt says", "protocol"},
	{"a later revision than its receipt", claimed(func(c *oiv1.CollectionState) { c.Revision += 5 }), failed, "its receipt says", "protocol"},
	{"another journal epoch than its receipt", claimed(func(c *oiv1.CollectionState) { c.JournalEpoch++ }), failed, "its receipt says", "protocol"},
	{"rows that do not make the root that it named", claimed(func(c *oiv1.CollectionState) { c.Receipt, c.StateRoot[0] = make([]byte, 32), c.StateRoot[0]^1 }), failed, "do not make the state root", "protocol"},
	{"a grant that nobody issued", claimed(func(c *oiv1.CollectionState) { c.BoundGrant = make([]byte, 32) }), failed, "under a grant that was never issued", "protocol"},
	{"a refusal that clears the terminal", at(changed(func(_ *lyingIndexer, f *oiv1.IndexerFrame) {
		f.GetAnnounceResult().Refusals = []*oiv1.Refusal{{Reason: "\x1b[2J", Detail: strings.Repeat("\x1b[2J", 1000)}}
	}), isAnnounced), refusedCode, `refused`, ""},
}

// forgets makes an indexer claim that it holds something else under no receipt,
// so that the publisher asks for its state, and lies about that.
func forgets(change func(a *oiv1.RangeAnswer)) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return func(_ *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		if r := f.GetAnnounceResult(); r != nil {
			r.Collections[0].Receipt = make([]byte, 32)
			r.Collections[0].StateRoot[0] ^= 1
		}
		if a := f.GetRangeAnswer(); a != nil {
			change(a)
		}
		return []*oiv1.IndexerFrame{f}
	}
}

// leaf is how long a page's leaf is in an answer.
const leaf = 32 + 32 + 1

var rowLies = []lie{
	{"leaves that are not sorted", forgets(func(a *oiv1.RangeAnswer) {
		b := a.Subtrees[0]
		a.Subtrees[0] = slices.Concat(b[:1], b[1+leaf:1+2*leaf], b[1:1+leaf])
	}), failed, "out of order", "protocol"},
	{"a leaf twice", forgets(func(a *oiv1.RangeAnswer) {
		a.Subtrees[0] = append(a.Subtrees[0], a.Subtrees[0][len(a.Subtrees[0])-leaf:]...)
	}), failed, "out of order", "protocol"},
	{"a leaf that is cut short", forgets(func(a *oiv1.RangeAnswer) { a.Subtrees[0] = a.Subtrees[0][:leaf] }), failed, "a bucket of", "protocol"},
	{"more leaves than a bucket has", forgets(func(a *oiv1.RangeAnswer) { a.Subtrees[0] = make([]byte, 1+17*leaf) }), failed, "a subtree of", "protocol"},
	{"another digest of a page", forgets(func(a *oiv1.RangeAnswer) { a.Subtrees[0][1+32] ^= 1 }), failed, "do not make the state root", "protocol"},
	{"a page less", forgets(func(a *oiv1.RangeAnswer) { a.Subtrees[0] = a.Subtrees[0][:1+leaf] }), failed, "do not make the state root", "protocol"},
	{"nothing at all", forgets(func(a *oiv1.RangeAnswer) { a.Subtrees[0] = nil }), failed, "a subtree of", "protocol"},
	{"a node of fewer pages than make one", forgets(func(a *oiv1.RangeAnswer) {
		a.Subtrees[0] = slices.Concat([]byte{1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9}, make([]byte, 31), []byte{1})
	}), failed, "node of 9 leaves", "protocol"},
	{"the state of another series", forgets(func(a *oiv1.RangeAnswer) { a.Series = "another" }), failed, "something else than the rows", "protocol"},
	{"more places than were asked for", forgets(func(a *oiv1.RangeAnswer) { a.Subtrees = append(a.Subtrees, a.Subtrees[0]) }), failed, "were asked for", "protocol"},
	{"no place", forgets(func(a *oiv1.RangeAnswer) { a.Subtrees = nil }), failed, "were asked for", "protocol"},
	{"a page of somebody else", strangers("https://victim.test/", "https://victim.test/"), failed, "of no origin that was granted", "protocol"},
	{"a page by a wrong name", strangers(pair.Origin+"/never.html", pair.Origin+"/else.html"), failed, "does not belong to the row", "protocol"},
}

// strangers claims to hold one page alone, and gives it a name when it is asked.
func strangers(url, name string) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	row := &oiv1.StateRow{Digest: make([]byte, 32), Format: 1}
	h := sha256.Sum256([]byte(url))
	row.Hash = h[:]
	return func(_ *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		if r := f.GetAnnounceResult(); r != nil {
			r.Collections[0].Receipt, r.Collections[0].StateRoot = make([]byte, 32), rootOfRow(row)
		}
		if a := f.GetRangeAnswer(); a != nil {
			if len(a.Subtrees) > 0 {
				a.Subtrees[0] = slices.Concat([]byte{0}, row.Hash, row.Digest, []byte{byte(row.Format)})
			} else { // asked for by its hash, and not held
				a.Rows, a.More = []*oiv1.StateRow{{Hash: row.Hash, Digest: row.Digest, Format: row.Format, Url: name}}, false
			}
		}
		return []*oiv1.IndexerFrame{f}
	}
}

// TestALyingIndexerMovesNothing tells one lie after another to the real
// publisherd. Each is refused by its name; the publisher then holds the receipts
// that it was honestly given, and no other, and the honest indexer beside it has
// every page. When the lies are over it goes on where it was.
func TestALyingIndexerMovesNothing(t *testing.T) {
	t.Parallel()
	bin := buildPublisherd(t)
	for name, test := range map[string]func(*testing.T, string){
		"an indexer with two views is stopped":             twoViews,
		"a public log that is not there is a warning":      noPublicLog,
		"a connection that hangs is given up":              hangs,
		"a page that is not shown is sent again":           unshown,
		"another state that is claimed is only sent over":  anotherState,
		"false acknowledgements are not kept":              falseAcknowledgements,
		"what nobody asked for stops the daemon's session": unasked,
	} {
		t.Run(name, func(t *testing.T) { test(t, bin) })
	}
	for name, lies := range map[string][]lie{
		"at the welcome":    welcomeLies,
		"about what it has": slices.Concat(claimLies, rowLies),
		"about a batch":     answerLies,
		"about its log":     proofLies,
		"by saying nothing": silences,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newLied(t, bin, 6)
			if results, errs, code := x.push(); code != 0 || results[liesName].Sent != 6 {
				t.Fatalf("honest at first: exit %d: %s", code, errs)
			}
			alarm := ""
			for n, tt := range lies {
				t.Run(tt.name, func(t *testing.T) { alarm = x.believes(t, tt, n, alarm) })
			}
			if _, errs, code := x.push(); code != 0 {
				t.Fatalf("when the lies are over: exit %d: %s", code, errs)
			}
			x.holdsWhatItWasGiven("")
			if line, _ := x.standing(liesName); line.Backlog != 0 || line.Pages != 6 {
				t.Errorf("when the lies are over: %+v", line)
			}
			x.EveryReceiptHolds()
		})
	}
}

// believes tells one lie, and gives the alarm that is on now; before it was
// another.
func (x *lied) believes(t *testing.T, tt lie, n int, before string) string {
	defer func(outer testing.TB) { x.t = outer }(x.t)
	x.t = t
	x.Write(n%6, strings.Repeat("so ", n+1))
	x.l.tell(&tt)
	results, errs, code := x.push()
	if told := x.l.tell(nil); told == 0 {
		t.Error("the lie was not told")
	}
	if code != tt.code || !regexp.MustCompile(tt.says).MatchString(errs) || strings.ContainsRune(errs, '\x1b') || len(errs) > 8<<10 {
		t.Errorf("exit %d, want %d by %q: %.2000s", code, tt.code, tt.says, errs)
	}
	if r := results[pair.IndexerName]; r.Sent != 1 || len(r.Receipts) != 1 {
		t.Errorf("the honest indexer got %+v", r)
	}
	alarm := cmp.Or(tt.alarm, before)
	x.holdsWhatItWasGiven(alarm)
	return alarm
}

// holdsWhatItWasGiven compares the publisher's records with what was honest.
func (x *lied) holdsWhatItWasGiven(alarm string) {
	x.t.Helper()
	line, held := x.standing(liesName)
	x.l.mu.Lock()
	defer x.l.mu.Unlock()
	given := x.l.given
	if len(held) != len(given) || line.LastReceipt != given[len(given)-1].String() || line.LastCheckpoint != x.l.agreed {
		x.t.Errorf("it holds %d receipts up to %s, and a tree of %d; it was given %d up to %s, and %d",
			len(held), line.LastReceipt, line.LastCheckpoint, len(given), given[len(given)-1], x.l.agreed)
	}
	for _, id := range held {
		if !slices.Contains(given, id) {
			x.t.Errorf("it holds receipt %s, which is a lie", id)
		}
	}
	got := ""
	if line.Alarm != nil {
		got = line.Alarm.Reason
	}
	if got != alarm {
		x.t.Errorf("alarm %q, want %q", got, alarm)
	}
}
