package follow

import (
	"encoding/binary"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A liar is the public side of a log with real keys, which is honest until a
// test makes it lie.
type liar struct {
	t     testing.TB
	stage *stage.Stage
	url   string

	// mu guards what follows.
	mu        sync.Mutex
	now       time.Time // of log and follower alike
	entries   [][]byte
	leaves    stage.Tree
	size      uint64    // that is published
	issued    time.Time // of its checkpoint
	cosign    func(text string) string
	continues *translog.Continues
	note      func(translog.Tree) translog.Tree
	artefact  func(*envelope.Header, *translog.Checkpoint)
	answer    func(w http.ResponseWriter, r *http.Request, body []byte) bool // false lets body through
	proof     func(*translog.ConsistencyProof)
	asked     int
}

// newLiar is a log without entries. seed makes its keys.
func newLiar(t testing.TB, seed byte) *liar {
	t.Helper()
	l := &liar{t: t, stage: stage.New(t, seed), now: time.Date(2025, 11, 3, 10, 0, 0, 0, time.UTC)}
	l.issued = l.now
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.url = server.URL
	return l
}

func (l *liar) card() *identity.Card { return l.stage.Indexer.Card }

// set changes the log between two requests.
func (l *liar) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *liar) clock() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// pass lets time go by, for log and follower alike, without any refresh.
func (l *liar) pass(d time.Duration) { l.set(func() { l.now = l.now.Add(d) }) }

// refresh issues the checkpoint anew.
func (l *liar) refresh() { l.set(func() { l.issued = l.now }) }

// A draft is an entry before it is signed.
type draft struct {
	header envelope.Header
	body   translog.Entry
	signer *envelope.Signer
}

// sign makes the entry of that index. l.mu is held.
func (l *liar) sign(index uint64, change func(*draft)) []byte {
	l.t.Helper()
	hash := func(word string) envelope.Hash {
		return envelope.TaggedHash(word, binary.BigEndian.AppendUint64(nil, index))
	}
	name := l.card().Identity
	d := draft{
		envelope.Header{Type: envelope.Entry, Authority: name.Authority(), Subject: l.stage.Subject(), Epoch: 1, Sequence: index, IssuedAt: l.now},
		translog.Entry{
			CollectionRef: hash("c"), Decision: translog.Update, Status: translog.Rebound, From: 7, Through: 7,
			GrantExpiresAt: envelope.At(l.now.Add(time.Hour)), GrantID: hash("g"), Indexer: name, JournalEpoch: 1,
			LogOrigin: l.stage.Origin(), Objects: stage.Counted(3), PolicyHash: hash("p"), Profile: translog.Profile,
			Purposes: []string{"search.index"}, ScopeHash: hash("s"), State: hash("t"),
		},
		l.stage.Indexer.Envelope,
	}
	if change != nil {
		change(&d)
	}
	o, err := envelope.Sign(d.header, &d.body, d.signer)
	check(l.t, err)
	return o.Raw
}

// grow appends n entries and publishes them. change may spoil the last one.
func (l *liar) grow(n int, change func(*draft)) {
	l.t.Helper()
	l.set(func() {
		for i := range n {
			var spoil func(*draft)
			if i == n-1 {
				spoil = change
			}
			l.add(l.sign(uint64(len(l.entries)), spoil))
		}
		l.size, l.issued = uint64(len(l.entries)), l.now
	})
}

// add appends any octets. l.mu is held.
func (l *liar) add(raw []byte) {
	l.entries, l.leaves = append(l.entries, raw), append(l.leaves, translog.LeafHash(raw))
}

// rewrite makes other entries from index on, as many as there were.
func (l *liar) rewrite(index int) {
	l.set(func() {
		n := len(l.entries)
		l.entries, l.leaves = l.entries[:index:index], l.leaves[:index:index]
		for i := index; i < n; i++ {
			l.add(l.sign(uint64(i), func(d *draft) { d.body.From, d.body.Through = 8, 8 }))
		}
	})
}

// tree is what is published. l.mu is held.
func (l *liar) tree() translog.Tree { return l.leaves.At(l.stage.Origin(), l.size) }

// signedNote is the note that is served. l.mu is held.
func (l *liar) signedNote() []byte {
	tree := l.tree()
	if l.note != nil {
		tree = l.note(tree)
	}
	raw := l.stage.SignNote(l.t, tree)
	if l.cosign != nil {
		text, _, _ := strings.Cut(string(raw), "\n\n")
		raw = append(raw, l.cosign(text+"\n")...)
	}
	return raw
}

func (l *liar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.asked++
	body, ok := l.body(r)
	answer := l.answer
	l.mu.Unlock()
	if answer != nil && answer(w, r, body) {
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Write(body)
}

// body is the honest answer. l.mu is held.
func (l *liar) body(r *http.Request) ([]byte, bool) {
	switch path := r.URL.Path; {
	case path == "/checkpoint":
		return l.signedNote(), true
	case path == "/signed-checkpoint.json":
		return l.signedCheckpoint(), true
	case path == "/proof/consistency":
		from, err1 := strconv.ParseUint(r.FormValue("from"), 10, 64)
		to, err2 := strconv.ParseUint(r.FormValue("to"), 10, 64)
		if err1 != nil || err2 != nil || from > to || to > l.size {
			return nil, false
		}
		p := translog.ConsistencyProof{From: from, Hashes: translog.Hashes(l.leaves.Consistency(from, to)), To: to}
		if l.proof != nil {
			l.proof(&p)
		}
		return l.canonical(&p)
	case path == "/proof/inclusion":
		index, err1 := strconv.ParseUint(r.FormValue("index"), 10, 64)
		size, err2 := strconv.ParseUint(r.FormValue("size"), 10, 64)
		if err1 != nil || err2 != nil || index >= size || size > l.size {
			return nil, false
		}
		return l.canonical(&translog.InclusionProof{Hashes: translog.Hashes(l.leaves.Inclusion(index, size)), Index: index, Size: size})
	case strings.HasPrefix(path, "/tile/"):
		return l.tile(strings.TrimPrefix(path, "/tile/"))
	}
	return nil, false
}

func (l *liar) canonical(v any) ([]byte, bool) {
	b, err := envelope.Canonical(v)
	check(l.t, err)
	return b, true
}

func (l *liar) signedCheckpoint() []byte {
	tree := l.tree()
	name := l.card().Identity
	h := envelope.Header{Type: envelope.Checkpoint, Authority: name.Authority(), Subject: name, Epoch: 1, Sequence: tree.Size, IssuedAt: l.issued}
	c := translog.Checkpoint{
		Algorithm: translog.RootAlgorithm, Continues: l.continues, Indexer: name, LogOrigin: tree.Origin, Profile: translog.Profile,
		Root: tree.Root, TreeSize: tree.Size,
	}
	if l.artefact != nil {
		l.artefact(&h, &c)
	}
	o, err := envelope.Sign(h, &c, l.stage.Indexer.Envelope)
	check(l.t, err)
	return o.Raw
}

// tile understands paths of fewer than a thousand tiles.
func (l *liar) tile(path string) ([]byte, bool) {
	level, rest, _ := strings.Cut(path, "/")
	number, width, partial := strings.Cut(rest, ".p/")
	index, err := strconv.ParseUint(number, 10, 64)
	w := translog.TileWidth
	if partial {
		w, err = strconv.Atoi(width)
	}
	first := index * translog.TileWidth
	if err != nil {
		return nil, false
	}
	var b []byte
	for i := range uint64(w) {
		switch n := first + i; {
		case level == "entries" && n < l.size:
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(l.entries[n]))), l.entries[n]...)
		case level == "0" && n < l.size:
			b = append(b, l.leaves[n][:]...)
		case level == "1" && (n+1)*translog.TileWidth <= l.size:
			root := l.leaves[n*translog.TileWidth:].Root(translog.TileWidth)
			b = append(b, root[:]...)
		default:
			return nil, false
		}
	}
	return b, true
}

// options are those of a follower that does not wait long.
func (l *liar) options(dir string) Options {
	return Options{
		Dir: dir, Logger: slog.New(slog.DiscardHandler), Now: l.clock, Rand: func(int64) int64 { return 0 },
		Every: time.Millisecond, ConfirmAfter: time.Millisecond,
		Remote: remote.Options{Timeout: 20 * time.Second, Tries: 1, Ahead: 2},
	}
}

// follow makes one round in dir, by a process that has just been started.
func (l *liar) follow(dir string, change func(*Options, *Log)) *Report {
	l.t.Helper()
	o, log := l.options(dir), Log{URL: l.url, Card: l.card()}
	if change != nil {
		change(&o, &log)
	}
	s, err := Open(o, []Log{log})
	check(l.t, err)
	r := s.Once(l.t.Context())[0]
	check(l.t, s.Close())
	return r
}

// wantRules compares the rules of the alerts that stand.
func wantRules(t testing.TB, r *Report, want ...Kind) {
	t.Helper()
	var got []string
	for _, v := range r.Violations {
		got = append(got, string(v.Rule))
	}
	var all []string
	for _, k := range want {
		all = append(all, string(k))
	}
	if strings.Join(got, " ") != strings.Join(all, " ") {
		t.Errorf("alerts %q, want %q; error %v, report %+v", got, all, r.Err, r)
	}
}

// alertFile is a file of the alert that stands.
func alertFile(t testing.TB, dir string, v Violation, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "alerts", v.Folder, name))
	check(t, err)
	return b
}
