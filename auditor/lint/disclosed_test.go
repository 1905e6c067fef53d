package lint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

type (
	jsonPage map[string]any
	jsonSet  struct {
		Index int        `json:"index"`
		Pages []jsonPage `json:"pages"`
	}
)

// An open log is one whose pages are known: a script whose sets have real leaves.
type open struct {
	s    *stage.Stage
	log  *zoo.Script
	g    zoo.Grant
	sets []jsonSet
	rev  uint64
}

func newOpen(t *testing.T) *open {
	s := stage.New(t, 1)
	o := &open{s: s, log: zoo.NewScript(s.Indexer, now.Add(-10*time.Hour)), g: zoo.Grant{Series: "a", Name: "a", Life: 1000 * time.Hour}}
	o.log.Journal(o.g, 7)
	return o
}

// last gives the last entry these pages.
func (o *open) last(op translog.Op, urls ...string) {
	var leaves [][32]byte
	set := jsonSet{Index: len(o.log.Drafts) - 1}
	for _, u := range urls {
		o.rev++
		digest := zoo.Hash(u)
		leaves = append(leaves, o.s.LeafKey.Leaf(op, 7, o.rev, u, digest).Hash())
		p := jsonPage{"url": u, "op": op, "revision": o.rev}
		if op == translog.OpPut {
			p["digest"] = digest
		}
		set.Pages = append(set.Pages, p)
	}
	o.log.Drafts[set.Index].Objects = translog.SetOf(leaves)
	o.sets = append(o.sets, set)
}

func (o *open) batch(d translog.Decision, op translog.Op, urls ...string) {
	o.log.Batch(o.g, uint64(len(urls)), zoo.Part{Decision: d, Pages: len(urls)})
	o.last(op, urls...)
}

// file is the disclosure of all sets but some.
func (o *open) file(t *testing.T, without ...int) []byte {
	t.Helper()
	sets := []jsonSet{}
	for _, s := range o.sets {
		hidden := false
		for _, n := range without {
			hidden = hidden || n == s.Index
		}
		if !hidden {
			sets = append(sets, s)
		}
	}
	b, err := json.Marshal(map[string]any{
		"profile": "uzpif-oi-disclosed/1", "collection": "docs", "leaf_key": fmt.Sprintf("%x", o.s.LeafKey[:]), "sets": sets,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// made signs the log, under the name that the leaf key gives the collection.
func (o *open) made(t *testing.T) *zoo.Log {
	for i := range o.log.Drafts {
		o.log.Drafts[i].CollectionRef = o.s.LeafKey.CollectionRef("docs")
	}
	return zoo.New(t, o.s.Indexer, o.log.Drafts, []uint64{0, 0}, now, zoo.Lie{})
}

func TestPagesAreJudgedWhereTheyAreDisclosed(t *testing.T) {
	const a, b, c = "https://example.com/a", "https://example.com/b", "https://example.com/c"
	include, update, gone, put, tombstone := translog.Include, translog.Update, translog.DeleteAck, translog.OpPut, translog.OpTombstone
	for _, tt := range []struct {
		name   string
		more   func(o *open)
		hidden []int
		want   lint.Rule
	}{
		{"pages that come, change, go and come again", func(o *open) {
			o.batch(update, put, a)
			o.batch(gone, tombstone, a)
			o.batch(include, put, a)
		}, nil, ""},
		{"a page whose retention ends, and that comes again", func(o *open) {
			o.log.Say(o.g, gone, translog.Retention, zoo.Named(1))
			o.last(tombstone, b)
			o.batch(include, put, b)
		}, nil, ""},
		{"a page deleted that was never included", func(o *open) { o.batch(gone, tombstone, c) }, nil, lint.PageUnknown},
		{"a page updated that was never included", func(o *open) { o.batch(update, put, c) }, nil, lint.PageUnknown},
		{"a page updated behind a set that is not disclosed", func(o *open) { o.batch(update, put, c) }, []int{0}, ""},
		{"an include after its delete under a revoked grant", func(o *open) {
			o.log.Stop(o.g, "of a part", "part", 1)
			o.log.Delete(o.g, "of a part", "part", 1)
			o.last(tombstone, a)
			o.batch(include, put, a)
		}, nil, lint.PageReturned},
		{"content that is not part of a leaf", func(o *open) { o.sets[0].Pages[0]["digest"] = zoo.Hash("other words") }, nil, lint.Disclosed},
		{"a page that is another one", func(o *open) { o.sets[0].Pages[0]["url"] = c }, nil, lint.Disclosed},
		{"a set with a page too few", func(o *open) { o.sets[0].Pages = o.sets[0].Pages[:1] }, nil, lint.Disclosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOpen(t)
			o.batch(include, put, a, b)
			tt.more(o)
			d, err := lint.ParseDisclosure(o.file(t, tt.hidden...))
			if err != nil {
				t.Fatal(err)
			}
			with := options(o.s.Indexer)
			with.Disclosed = d
			r := judge(t, o.made(t), with)
			if (tt.want == "") != r.OK() || tt.want != "" && r.Violations[0].Rule != tt.want {
				t.Errorf("want %q:\n%s", tt.want, r)
			}
			if told := strings.Contains(r.String(), "not judged"); told != (len(tt.hidden) > 0 || tt.want == lint.Disclosed) {
				t.Errorf("what is not judged:\n%s", r)
			}
		})
	}
}

func TestADisclosureGoesOnWithItsState(t *testing.T) {
	o := newOpen(t)
	o.batch(translog.Include, translog.OpPut, "https://example.com/a")
	for len(o.log.Drafts) < 300 {
		o.batch(translog.Update, translog.OpPut, "https://example.com/a")
	}
	with := options(o.s.Indexer)
	with.State, with.Ask = t.TempDir(), 10
	var err error
	if with.Disclosed, err = lint.ParseDisclosure(o.file(t)); err != nil {
		t.Fatal(err)
	}
	log := o.made(t)
	for range 2 {
		if r := judge(t, log, with); !r.OK() {
			t.Fatal(r)
		}
	}
	if with.Disclosed, err = lint.ParseDisclosure(o.file(t, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := lintOnce(t, log, with); !errors.Is(err, lint.ErrState) {
		t.Errorf("with another disclosure: %v", err)
	}
}

func FuzzParseDisclosure(f *testing.F) {
	page := `{"url":"https://example.com/a","op":1,"revision":3,"digest":"` + envelope.Hash{1}.String() + `"}`
	f.Add([]byte(`{"profile":"uzpif-oi-disclosed/1","collection":"docs","leaf_key":"` + strings.Repeat("00", 32) + `","sets":[{"index":1,"pages":[` + page + `]}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if d, err := lint.ParseDisclosure(raw); (d == nil) == (err == nil) || err != nil && !errors.Is(err, lint.ErrDisclosure) {
			t.Errorf("%v, %v", d, err)
		}
	})
}
