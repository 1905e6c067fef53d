package indexer

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog/fsck"
)

// sound checks the whole store while the indexer runs.
func (r *rig) sound(when string) *FsckReport {
	r.t.Helper()
	report, err := r.x.Fsck(r.t.Context(), FsckOptions{FS: r.fs})
	if err != nil {
		r.t.Fatal(err)
	}
	if !report.OK() {
		r.t.Errorf("%s: findings %v", when, report.Findings)
	}
	return report
}

func TestASoundStoreHasNoFindings(t *testing.T) {
	r := newRig(t)
	r.sound("an empty store")
	s, c := r.example().held(30)
	r.sound("pages are held")
	c.push(s, puts("second", urls(site, 4)...)...)
	r.sound("pages were updated")
	c.push(s, change{url: urls(site, 30)[7]}, change{url: urls(site, 30)[8]})
	r.sound("pages were deleted")
	s.pair = s.grant(2, func(d *grants.Draft) { d.Scope = must[grants.Scope](t)(grants.PrefixScope(site + "page-000")) })
	c.close()
	c = s.p.session(s)
	c.rebind(s)
	r.sound("a narrower grant took the state over")
	c.close()
	other := s.p.series("other", blogs, nil)
	c = s.p.session(s, other)
	c.push(other, puts("a blog", urls(blogs, 5)...)...)
	if got := r.sound("a second series"); got.Series != 2 || got.Answers != 4 || got.Pages == 0 || got.Segments == 0 {
		t.Errorf("%+v", got)
	}
	c.close()
	r.forward(25 * time.Hour)
	if err := r.x.expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.sound("the grants have expired")
	rev := s.p.revocation(other.pair.Grant.Revoke(grants.DispositionDelete))
	s.p.revoke(rev)
	s.p.settled(rev)
	r.sound("a series was deleted")
	r.close()
	report, err := FsckFolder(t.Context(), r.dir, FsckOptions{})
	if err != nil || !report.OK() || report.Series != 2 {
		t.Errorf("closed: %+v, %v", report, err)
	}
	r.open()
}

// TestDamageInTheStoreIsFound changes what an indexer has stored, row by row, and
// asks the check what it makes of it.
func TestDamageInTheStoreIsFound(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(12)
	c.push(s, puts("second", urls(site, 2)...)...)
	c.close()
	rec, _, _ := r.stateOf(s)
	lo := func(space byte) []byte { return sidKey(space, rec.SID) }
	x := r.x
	row := func(prefix []byte) durable.Row {
		t.Helper()
		for kv, err := range x.store.Scan(prefix, durable.PrefixEnd(prefix)) {
			if err != nil {
				t.Fatal(err)
			}
			return durable.Row{Key: slices.Clone(kv.Key), Value: slices.Clone(kv.Value)}
		}
		t.Fatalf("no row %x", prefix)
		return durable.Row{}
	}
	write := func(key, value []byte) {
		t.Helper()
		b := x.store.NewBatch()
		defer b.Close()
		err := b.Delete(key)
		if value != nil {
			err = b.Set(key, value)
		}
		if err == nil {
			err = b.Commit()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check := func() *FsckReport {
		t.Helper()
		c := &checker{r: x.store, store: x.store, keys: x.keys, decoder: x.decoder, limits: x.cfg.Limits, card: x.local.Card, window: 100}
		report, err := c.run(t.Context(), nil, FsckOptions{NoMark: true})
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	flip := func(b []byte, at int) []byte {
		b = slices.Clone(b)
		b[at] ^= 1
		return b
	}
	last := func(b []byte) []byte { return flip(b, len(b)-1) }
	for _, tt := range []struct {
		name   string
		row    durable.Row
		change func([]byte) []byte // nil takes the row away
		want   fsck.Kind
	}{
		{"a sealed frame with another octet", row(lo('G')), last, findSegment},
		{"a sealed frame cut short", row(lo('G')), func(b []byte) []byte { return b[:20] }, findSegment},
		{"a sealed frame that is gone", row(lo('G')), nil, findSegment},
		{"a segment of which nothing tells when it has to go", row(lo('H')), nil, findSegment},
		{"a segment whose time cannot be read", row(lo('H')), func(b []byte) []byte { return b[1:] }, findSeries},
		{"a catalogue row that is gone", row(lo('C')), nil, findSeries},
		{"a catalogue row that cannot be read", row(lo('C')), func(b []byte) []byte { return b[1:] }, findPage},
		{"a catalogue row that points elsewhere", row(lo('C')), func(b []byte) []byte {
			var row catalogueRow
			if err := row.ParseRow(b); err != nil {
				t.Fatal(err)
			}
			row.Offset++
			return row.AppendRow(nil)
		}, findPage},
		{"an answer that says where it is not", row(lo('B')), func(b []byte) []byte {
			return bytes.Replace(b, []byte(`"first":0`), []byte(`"first":1`), 1)
		}, findAnswer},
		{"a leaf of the state with another digest", row(append(lo('T'), 0)), func(b []byte) []byte { return flip(b, 3) }, findSeries},
		{"a leaf of the state that is gone", row(append(lo('T'), 0)), nil, findSeries},
		{"a record that cannot be read", row([]byte{'R'}), func(b []byte) []byte { return b[1:] }, findSeries},
		{"a record that is gone", row([]byte{'R'}), nil, fsck.Stray},
		{"an answer that cannot be read", row(lo('B')), func(b []byte) []byte { return b[1:] }, findAnswer},
		{"an answer that its batch does not find", row(lo('b')), last, findAnswer},
		{"an entry of the log", row([]byte("Le")), last, fsck.Entry},
		{"a space that nobody has", durable.Row{Key: []byte("Y1")}, func([]byte) []byte { return []byte{1} }, fsck.Stray},
		{"a segment of no series", durable.Row{Key: segmentKey(rec.SID+7, 1)}, func([]byte) []byte { return []byte{1} }, fsck.Stray},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var value []byte
			if tt.change != nil {
				value = tt.change(tt.row.Value)
			}
			write(tt.row.Key, value)
			report := check()
			if !slices.ContainsFunc(report.Findings, func(f fsck.Finding) bool { return f.Kind == tt.want }) {
				t.Errorf("findings %v, want one of kind %s", report.Findings, tt.want)
			}
			write(tt.row.Key, tt.row.Value)
		})
	}
	if report := check(); !report.OK() {
		t.Errorf("put back: %v", report.Findings)
	}
	x.keys = newDataKeys(t.TempDir())
	if report := check(); !slices.ContainsFunc(report.Findings, func(f fsck.Finding) bool { return f.Kind == findKey }) {
		t.Errorf("without its key: %v", report.Findings)
	}
}

// TestPagesAreFoundInWindows has a window hold fewer pages than there are.
func TestPagesAreFoundInWindows(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(9)
	for i := range 4 {
		c.push(s, puts("again", urls(site, 9)[2*i:2*i+2]...)...)
	}
	for window := 1; window < 12; window++ {
		c := &checker{r: r.x.store, store: r.x.store, keys: r.x.keys, decoder: r.x.decoder, limits: r.x.cfg.Limits, card: r.x.local.Card, window: window}
		report, err := c.run(t.Context(), nil, FsckOptions{NoMark: true})
		if err != nil || !report.OK() || report.Pages != 9 || report.Segments != 5 {
			t.Errorf("windows of %d pages: %+v, %v", window, report, err)
		}
	}
}

// TestTheStateIsWhatTheLogCommitsTo has the log's last entry of a series say
// something else than the store, which agrees with itself.
func TestTheStateIsWhatTheLogCommitsTo(t *testing.T) {
	r := newRig(t)
	s, _ := r.example().held(3)
	rec, _, _ := r.stateOf(s)
	c := &checker{r: r.x.store, store: r.x.store, keys: r.x.keys, decoder: r.x.decoder, limits: r.x.cfg.Limits, card: r.x.local.Card, window: 100}
	if _, err := c.run(t.Context(), nil, FsckOptions{NoMark: true}); err != nil {
		t.Fatal(err)
	}
	ref := rec.leafKey().CollectionRef(rec.Collection)
	sound := c.last[ref]
	for _, tt := range []struct {
		name   string
		change func(*lastEntry)
		found  int
	}{
		{"it says the same", func(*lastEntry) {}, 0},
		{"another state", func(e *lastEntry) { e.state[0] ^= 1 }, 1},
		{"another revision", func(e *lastEntry) { e.through++ }, 1},
		{"another journal epoch", func(e *lastEntry) { e.epoch++ }, 1},
		{"the state before a deletion", func(e *lastEntry) { e.deleted = true; e.state[0] ^= 1 }, 0},
	} {
		e := sound
		tt.change(&e)
		c.last[ref] = e
		c.report.Findings = nil
		(&seriesChecker{c, &rec}).commitment()
		if len(c.report.Findings) != tt.found {
			t.Errorf("%s: findings %v", tt.name, c.report.Findings)
		}
	}
	delete(c.last, ref)
	if (&seriesChecker{c, &rec}).commitment(); len(c.report.Findings) != 1 {
		t.Errorf("no entry of it: %v", c.report.Findings)
	}
}

// TestDamageWhereNoRowIsIsFound: an octet of a table of what a revocation has deleted,
// which no check of rows reads, is found as well as any other.
func TestDamageWhereNoRowIsIsFound(t *testing.T) {
	r := newRig(t)
	s, c := r.example().held(200)
	c.close()
	r.close()
	r.open() // what was written is in tables now, and what deletes it comes into others
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	s.p.revoke(rev)
	s.p.settled(rev)
	r.close()
	r.open()
	r.close()
	tables, found := must[[]string](t)(filepath.Glob(filepath.Join(r.dir, "store", "*.sst"))), 0
	for _, table := range tables {
		name := filepath.Base(table)
		for i := range 8 {
			octets := must[[]byte](t)(os.ReadFile(table))
			at := len(octets) * i / 8
			octets[at] ^= 1
			hurt := t.TempDir() // one each: a store that has met damage is not given up by the process
			err := os.CopyFS(hurt, os.DirFS(r.dir))
			if err == nil {
				err = os.WriteFile(filepath.Join(hurt, "store", name), octets, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			report := must[*FsckReport](t)(FsckFolder(t.Context(), hurt, FsckOptions{}))
			if report.OK() {
				t.Errorf("octet %d of %d of %s may be changed", at, len(octets), name)
			}
			if len(report.Findings) == 1 && report.Findings[0].Key == "table "+name {
				found++ // by its checksum alone
			}
		}
	}
	if found == 0 {
		t.Errorf("the rows alone tell all of it, of %d tables", len(tables))
	}
	r.open()
}
