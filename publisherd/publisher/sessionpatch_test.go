package publisher

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// fakePatches is what a fake indexer needs for patch batches and credits.
type fakePatches struct {
	patched  int    // patch batches that came
	octets   int    // of frames that came
	step     uint64 // of each further credit
	allowed  uint64 // for the batch under way
	busy     bool   // answers a batch that it has not read
	forgot   bool   // knows no base any more
	poison   string // URL that spoils a batch, or "all"
	credited func(*oiv1.Credit)
}

// giveCredit gives more once all that was allowed has come, and checks that no
// more than that came.
func (f *fakeIndexer) giveCredit(stream grpc.BidiStreamingServer[oiv1.PublisherFrame, oiv1.IndexerFrame], b *oiv1.Batch, came int) (*oiv1.IndexerFrame, error) {
	if f.credit == 0 {
		return nil, nil
	}
	if came == 0 {
		f.allowed = f.credit
	}
	if uint64(came) > f.allowed {
		f.t.Errorf("%d octets came, and %d were allowed", came, f.allowed)
	}
	if uint64(came) < f.allowed {
		return nil, nil
	}
	f.octets = came
	if f.busy {
		o, err := envelope.Parse(b.Manifest)
		check(f.t, err)
		return result(&oiv1.BatchResult{Series: b.Series, BatchId: o.ID[:], Refused: &oiv1.Fault{Reason: string(grants.ErrExhausted), RetryMs: 100}}), nil
	}
	f.allowed += f.step
	c := &oiv1.Credit{Octets: f.step}
	if f.credited != nil {
		f.credited(c)
	}
	return nil, stream.Send(&oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Credit{Credit: c}})
}

// unpatch makes a frame of the other form out of a patch, by the payloads that
// were sent before; nil if a base is another.
func (f *fakeIndexer) unpatch(b *oiv1.Batch, frame []byte) []byte {
	f.patched++
	f.octets = len(frame)
	var list oiv1.Items
	raw := f.decode(frame[:b.ListFrameBytes], nil)
	check(f.t, proto.Unmarshal(raw, &list))
	var dictionary []byte
	for _, it := range list.Items {
		if it.Base == nil {
			continue
		}
		held := f.payloads[it.Url]
		if f.forgot || !bytes.Equal(digestOf(held)[:baseBytes], it.Base) {
			return nil
		}
		dictionary = append(dictionary, held...)
	}
	if uint64(len(dictionary)) != b.DictionaryBytes || uint64(len(raw)) != b.ItemsBytes {
		f.t.Errorf("a dictionary of %d octets, a list of %d: %v", len(dictionary), len(raw), b)
	}
	payloads := f.decode(frame[b.ListFrameBytes:], dictionary)
	whole, err := encodeFrame(append(raw, payloads...), nil)
	check(f.t, err)
	return whole
}

// spoilt reports whether a batch is to be refused for one of its pages.
func (f *fakeIndexer) spoilt(b *oiv1.Batch, frame []byte) bool {
	if f.poison == "" {
		return false
	}
	var list oiv1.Items
	check(f.t, proto.Unmarshal(f.decode(frame, nil)[:b.ItemsBytes], &list))
	return f.poison == "all" || slices.ContainsFunc(list.Items, func(it *oiv1.Item) bool { return it.Url == f.poison })
}

func (f *fakeIndexer) decode(frame, dictionary []byte) []byte {
	return decodeFrame(f.t, frame, dictionary)
}

// fatal is what testing.TB and rapid.T have in common.
type fatal interface {
	Helper()
	Fatal(...any)
}

func decodeFrame(t fatal, frame, dictionary []byte) []byte {
	t.Helper()
	var options []zstd.DOption
	if dictionary != nil {
		options = append(options, zstd.WithDecoderDictRaw(0, dictionary))
	}
	d, err := zstd.NewReader(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	raw, err := d.DecodeAll(frame, nil)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// prose is a text that does not shrink well, the same for the same seed.
func prose(octets int, seed byte) string {
	var b strings.Builder
	state := [32]byte{seed}
	for b.Len() < octets {
		state = sha256.Sum256(state[:])
		fmt.Fprintf(&b, "%x ", state[:6])
	}
	return b.String()
}

func TestAChangedPageGoesAsAPatch(t *testing.T) {
	x := newFixture(t)
	for i := range 8 {
		x.write(fmt.Sprint("p", i), prose(6000, byte(i)))
	}
	_, err := x.push()
	check(t, err)
	x.write("p3", prose(6000, 3)+" and one word more")
	x.write("p5", "in the middle of it "+prose(6000, 5))
	x.write("p9", "a new page")
	check(t, os.Remove(filepath.Join(x.site, "p7.html")))
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 3 || r.Deleted != 1 || r.Patched != 2 || x.fake.patched != 1 || x.receipts() != 2 {
		t.Errorf("%+v, %d patch batches", r, x.fake.patched)
	}
	if x.fake.octets > 1000 {
		t.Errorf("two words of 12,000 octets took %d", x.fake.octets)
	}
	// The page that is patched now was patched before.
	x.write("p3", prose(6000, 3)+" and other words")
	results, err = x.push()
	check(t, err)
	if r := results[0]; r.Patched != 1 || x.cursor().State != rootOf(t, x.fake.pages) {
		t.Errorf("%+v", r)
	}
}

func TestAnUnknownBaseGoesWhole(t *testing.T) {
	x := newFixture(t)
	for i := range 4 {
		x.write(fmt.Sprint("p", i), prose(4000, byte(i)))
	}
	_, err := x.push()
	check(t, err)
	x.fake.forgot = true
	x.write("p1", prose(4000, 1)+" more")
	results, err := x.push()
	check(t, err)
	if r := results[0]; r.Sent != 1 || r.Patched != 0 || x.fake.patched != 1 || x.fake.batches != 3 || x.cursor().State != rootOf(t, x.fake.pages) {
		t.Errorf("%+v, %d batches, %d of them patches", r, x.fake.batches, x.fake.patched)
	}
	// What was sent whole is a base again.
	x.fake.forgot = false
	x.write("p1", prose(4000, 1)+" once more")
	results, err = x.push()
	check(t, err)
	if results[0].Patched != 1 {
		t.Errorf("%+v", results[0])
	}
}

// TestAPatchIsChosenOnlyWhereItIsSmaller makes patches of any pages on any bases:
// each is smaller than the limit, and holds the pages.
func TestAPatchIsChosenOnlyWhereItIsSmaller(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []*oiv1.Item
		var bodies, bases [][]byte
		for i := range rapid.IntRange(1, 6).Draw(t, "pages") {
			body := []byte(prose(rapid.IntRange(0, 3000).Draw(t, "octets"), byte(i)))
			var base []byte
			switch rapid.IntRange(0, 3).Draw(t, "base") {
			case 0:
				base = rapid.SliceOfN(rapid.Byte(), 1, 500).Draw(t, "foreign")
			case 1:
				base = append([]byte("before "), body[len(body)/2:]...)
			case 2:
				base = append([]byte(nil), body...)
			}
			items, bodies, bases = append(items, &oiv1.Item{Url: fmt.Sprint("https://example.com/", i), Length: uint64(len(body))}), append(bodies, body), append(bases, base)
		}
		limit := rapid.IntRange(0, 20_000).Draw(t, "limit")
		p, err := newPatch(items, bodies, bases, limit)
		if err != nil {
			t.Fatal(err)
		}
		if p == nil {
			return
		}
		list := decodeFrame(t, p.frame[:p.listFrame], nil)
		raw := decodeFrame(t, p.frame[p.listFrame:], bytes.Join(bases, nil))
		if len(p.frame) >= limit || len(list) != p.itemsBytes || len(list)+len(raw) != p.rawBytes || !bytes.Equal(raw, bytes.Join(bodies, nil)) {
			t.Fatalf("%d octets of %d, %d of list, %d of payload", len(p.frame), limit, len(list), len(raw))
		}
		for _, it := range items {
			if it.Base != nil {
				t.Fatal("the other form of the batch was changed")
			}
		}
	})
}

// basesOf adds up the rows that an agreement keeps, and gives what it counts.
func basesOf(t *testing.T, a agreement) (rows int, octets, counted int64) {
	t.Helper()
	lo := rowKey('A', a.rel.Series, 'k')
	for kv, err := range a.store.Scan(lo, durable.PrefixEnd(lo)) {
		check(t, err)
		rows++
		octets += int64(len(kv.Value))
	}
	var c basesRow
	_, err := durable.ReadJSON(a.store, basesKey(a.rel.Series), &c)
	check(t, err)
	return rows, octets, c.Octets
}

func TestBasesAreBounded(t *testing.T) {
	x := newFixture(t)
	a := agreement{x.p.store, x.rel}
	const most = 32 << 10
	rapid.Check(t, func(rt *rapid.T) {
		b := x.p.store.NewBatch()
		defer b.Close()
		var items []offered
		var all []decided
		k := kept{most: most}
		for range rapid.IntRange(1, 30).Draw(rt, "items") {
			n := rapid.IntRange(0, 40).Draw(rt, "page")
			body := []byte(prose(rapid.SampledFrom([]int{10, 1000, 3000, 9000}).Draw(rt, "octets"), byte(n)))
			it := offered{URL: fmt.Sprint("https://example.com/doc/", n), Op: translog.OpPut, Digest: envelope.Hash(digestOf(body))}
			d := decided{op: it.Op, decision: rapid.SampledFrom([]translog.Decision{translog.Update, translog.Exclude}).Draw(rt, "decision")}
			if rapid.IntRange(0, 5).Draw(rt, "deleted") == 0 {
				it, d, body = offered{URL: it.URL, Op: translog.OpTombstone}, decided{op: translog.OpTombstone, decision: translog.DeleteAck}, nil
			}
			items, all, k.bodies = append(items, it), append(all, d), append(k.bodies, body)
		}
		if rapid.IntRange(0, 9).Draw(rt, "restarted") == 0 {
			k.bodies = nil
		}
		if err := errors.Join(a.keepBases(b, b, items, all, k), b.Commit()); err != nil {
			rt.Fatal(err)
		}
		if rows, octets, counted := basesOf(t, a); octets > most || octets != counted {
			rt.Fatalf("%d bases of %d octets, counted as %d", rows, octets, counted)
		}
	})
}

// TestANewPagePushesNoBaseOut: where there is no room, a page gets its base once it
// changes, and not when it comes.
func TestANewPagePushesNoBaseOut(t *testing.T) {
	x := newFixture(t)
	a := agreement{x.p.store, x.rel}
	const most = 32 << 10
	keep := func(n int, fresh bool) {
		body := []byte(prose(1000, byte(n)))
		it := offered{URL: fmt.Sprint("https://example.com/doc/", n), Op: translog.OpPut, Digest: envelope.Hash(digestOf(body)), fresh: fresh}
		b := x.p.store.NewBatch()
		defer b.Close()
		check(t, errors.Join(a.keepBases(b, b, []offered{it}, []decided{{op: it.Op, decision: translog.Include}}, kept{most: most, bodies: [][]byte{body}}), b.Commit()))
	}
	n, rows, before := 0, 0, -1
	for ; rows != before; n++ {
		before = rows
		keep(n, true)
		rows, _, _ = basesOf(t, a)
	}
	if rows < 2 || rows != n-1 {
		t.Fatalf("%d bases of the first %d pages: some were pushed out", rows, n)
	}
	last := func() bool {
		_, err := x.p.store.Get(baseKey(a.rel.Series, urlHash(fmt.Sprint("https://example.com/doc/", n-1))))
		return err == nil
	}
	if last() {
		t.Fatal("the page that came last has a base, and there is no room")
	}
	if keep(n-1, false); !last() {
		t.Error("it changed, and has none")
	}
}

func TestBasesGoWithTheAgreement(t *testing.T) {
	x := newFixture(t)
	x.write("a", prose(3000, 1))
	_, err := x.push()
	check(t, err)
	if rows, _, _ := basesOf(t, agreement{x.p.store, x.rel}); rows != 1 {
		t.Fatalf("%d bases", rows)
	}
	check(t, (&Revocation{Indexer: x.rel.Indexer, Signed: x.s.Revoke(t)}).write(x.p.dir))
	check(t, x.p.DeliverRevocations(t.Context(), x.rel.Indexer))
	if rows, _, counted := basesOf(t, agreement{x.p.store, x.rel}); rows != 0 || counted != 0 {
		t.Errorf("%d bases, counted as %d octets", rows, counted)
	}
}

func TestNoBasesAreKeptWhereNoneAreWanted(t *testing.T) {
	x := newFixture(t)
	x.p.keptBytes = -1
	x.write("a", prose(3000, 1))
	_, err := x.push()
	check(t, err)
	x.write("a", prose(3000, 1)+" more")
	results, err := x.push()
	check(t, err)
	if rows, _, _ := basesOf(t, agreement{x.p.store, x.rel}); rows != 0 || results[0].Patched != 0 {
		t.Errorf("%d bases; %+v", rows, results[0])
	}
}
