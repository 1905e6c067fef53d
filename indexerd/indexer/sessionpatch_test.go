package indexer

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// patched gives a parcel its other form, on bases by URL.
func (b *parcel) patched(bases map[string][]byte) *parcel {
	t := b.s.p.r.t
	t.Helper()
	b.pack()
	var dictionary []byte
	at := uint64(0)
	for _, it := range b.items.Items {
		if base, ok := bases[it.Url]; ok {
			old := sha256.Sum256(base)
			it.Base = old[:baseBytes]
			dictionary = append(dictionary, base...)
		}
		at += it.Length
	}
	return b.under(dictionary, b.payloads)
}

// under packs payloads under a dictionary, whatever the items say.
func (b *parcel) under(dictionary, payloads []byte) *parcel {
	t := b.s.p.r.t
	list := must[[]byte](t)(proto.Marshal(&b.items))
	b.frame = compressed(t, list)
	b.batch.ListFrameBytes, b.batch.ItemsBytes = uint64(len(b.frame)), uint64(len(list))
	b.frame = append(b.frame, compressed(t, payloads, zstd.WithEncoderDictRaw(0, dictionary))...)
	b.batch.DictionaryBytes, b.batch.RawBytes, b.batch.FrameBytes = uint64(len(dictionary)), uint64(len(list)+len(payloads)), uint64(len(b.frame))
	return b
}

func compressed(t testing.TB, raw []byte, o ...zstd.EOption) []byte {
	t.Helper()
	e := must[*zstd.Encoder](t)(zstd.NewWriter(nil, append(o, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(maxWindow))...))
	defer e.Close()
	return e.EncodeAll(raw, nil)
}

// old is what puts("words", …) gave a page.
func old(url string) []byte { return payloadOf(url, "words at "+url) }

func TestAPatchIsStoredWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(5)
	u := urls(site, 5)
	b := s.parcel(change{url: u[3], text: largeText(9000, 1)}, change{url: site + "new", text: "new words"}, change{url: u[4]}, change{url: u[1], text: "other words at " + u[1]}).
		patched(map[string][]byte{u[3]: old(u[3]), u[1]: old(u[1])})
	if a := c.deliver(b); a.Refused != nil {
		t.Fatal(a.Refused)
	}
	b.take()
	// A patch on what was patched, and one that shrinks to nearly nothing.
	before := payloadOf(u[3], largeText(9000, 1))
	second := s.parcel(change{url: u[3], text: largeText(9000, 1) + " more"}).patched(map[string][]byte{u[3]: before})
	if len(second.frame) > 500 {
		t.Errorf("one word takes %d octets", len(second.frame))
	}
	if a := c.deliver(second); a.Refused != nil {
		t.Fatal(a.Refused)
	}
	second.take()
	r.close()
	r.open()
	for url, text := range map[string]string{u[3]: largeText(9000, 1) + " more", site + "new": "new words", u[1]: "other words at " + u[1], u[0]: "words at " + u[0]} {
		if got, err := r.x.ownPayload(s.p.local.Name(), s.name, url); err != nil || !bytes.Equal(got, payloadOf(url, text)) {
			t.Errorf("%s: %d octets, %v", url, len(got), err)
		}
	}
	if rec, _, _ := r.stateOf(s); rec.Pages != 5 || rec.State != s.root() {
		t.Errorf("%d pages", rec.Pages)
	}
	r.sound("behind patches")
}

func TestAPatchSentAgainIsAnsweredByTheSameOctets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(2)
	u := urls(site, 2)
	b := s.parcel(change{url: u[0], text: "other words"}).patched(map[string][]byte{u[0]: old(u[0])})
	first := c.deliver(b)
	again := c.deliver(b)
	if first.Refused != nil || !proto.Equal(first.Committed, again.Committed) {
		t.Errorf("%v, then %v", first.Refused, again.Refused)
	}
	if got := words(r.log()); !slices.Equal(got, []string{"include/accepted 2", "update/accepted 1"}) {
		t.Errorf("logged %q", got)
	}
}

func TestAForeignBaseIsUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s, c := p.held(4)
	u := urls(site, 4)
	other := p.series("blog-1", blogs, nil)
	d := p.session(s, other)
	c.close()
	c = d
	c.push(other, puts("words", blogs+"page")...)
	c.push(s, change{url: u[1]}, change{url: u[2], payload: []byte("no TCT")})
	before, size, rows := r.stateOf(s)
	for name, tt := range map[string]struct {
		url  string
		base []byte
	}{
		"what is not held of the page": {u[0], []byte("something else")},
		"what another page holds":      {u[0], old(u[3])},
		"a page of another collection": {u[0], payloadOf(blogs+"page", "words at "+blogs+"page")},
		"a page that was deleted":      {u[1], old(u[1])},
		"a page that was excluded":     {u[2], []byte("no TCT")},
		"a page that never came":       {site + "never", old(u[0])},
	} {
		b := s.parcel(change{url: tt.url, text: "new words"}).patched(map[string][]byte{tt.url: tt.base})
		if a := c.deliver(b); a.GetRefused().GetReason() != string(grants.ErrBase) {
			t.Errorf("%s: %v", name, a)
		}
		if after, n, m := r.stateOf(s); after.State != before.State || n != size || m != rows {
			t.Errorf("%s: it left traces", name)
		}
	}
	// The same page goes whole under the same manifest.
	b := s.parcel(change{url: u[0], text: "new words"}).patched(map[string][]byte{u[0]: []byte("something else")})
	if a := c.deliver(b); a.GetRefused().GetReason() != string(grants.ErrBase) {
		t.Fatal(a)
	}
	manifest := b.manifest
	for _, it := range b.items.Items {
		it.Base = nil
	}
	b.pack()
	b.batch.Manifest = manifest.Raw
	if a := c.deliver(b); a.Refused != nil {
		t.Error(a.Refused)
	}
}

func TestAPurgedBaseIsUnknown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, func(d *grants.Draft) {
		days := uint64(1)
		d.Terms.Retention, d.Lifetime = &grants.RetentionTerms{CachedCopyDays: &days, FeatureDays: &days}, 72*time.Hour
	})
	c := p.session(s)
	u := urls(site, 1)
	c.push(s, puts("words", u...)...)
	c.close()
	r.forward(25 * time.Hour)
	c = p.session(s)
	b := s.parcel(change{url: u[0], text: "new words"}).patched(map[string][]byte{u[0]: old(u[0])})
	if a := c.deliver(b); a.GetRefused().GetReason() != string(grants.ErrBase) {
		t.Error(a)
	}
}

// hostilePatches spoil a patch of one page.
var hostilePatches = []struct {
	name string
	do   func(b *parcel)
	want grants.Reason
	ends bool // the session, too
}{
	{"a dictionary that is longer than the bases", func(b *parcel) { b.batch.DictionaryBytes++ }, grants.ErrMalformed, false},
	{"a dictionary that is shorter", func(b *parcel) { b.batch.DictionaryBytes-- }, grants.ErrMalformed, false},
	{"a dictionary of more than 8 MiB", func(b *parcel) { b.batch.DictionaryBytes = maxDictionary + 1 }, grants.ErrOversize, true},
	{"a dictionary of all there is", func(b *parcel) { b.batch.DictionaryBytes = 1<<64 - 1 }, grants.ErrOversize, true},
	{"a base without a dictionary", func(b *parcel) { b.batch.DictionaryBytes = 0 }, grants.ErrMalformed, true},
	{"a base in a batch of the other form", func(b *parcel) { b.pack() }, grants.ErrMalformed, false},
	{"no frame behind the list", func(b *parcel) { b.batch.ListFrameBytes = b.batch.FrameBytes }, grants.ErrMalformed, true},
	{"a list that is cut", func(b *parcel) { b.batch.ListFrameBytes-- }, grants.ErrMalformed, false},
	{"a list of another length", func(b *parcel) { b.batch.ItemsBytes++ }, grants.ErrMalformed, false},
	{"a base of 7 octets", func(b *parcel) { b.items.Items[0].Base = b.items.Items[0].Base[:7]; b.again() }, grants.ErrMalformed, false},
	{"a base of 32 octets", func(b *parcel) { b.items.Items[0].Base = make([]byte, 32); b.again() }, grants.ErrMalformed, false},
	{"a deletion with a base", func(b *parcel) { b.items.Items[0].Op = oiv1.Op_OP_TOMBSTONE; b.again() }, grants.ErrMalformed, false},
	{"another page than was signed for", func(b *parcel) {
		other := payloadOf(b.items.Items[0].Url, "what nobody signed")
		b.items.Items[0].Length = uint64(len(other))
		b.under(b.base(), other)
	}, grants.ErrMalformed, false},
	{"a bomb", func(b *parcel) {
		raw := b.batch.RawBytes
		b.under(b.base(), make([]byte, 32<<20))
		b.batch.RawBytes = raw
	}, grants.ErrMalformed, false},
	{"a frame under another dictionary", func(b *parcel) {
		b.under(bytes.Clone(b.payloads[:len(b.base())]), b.payloads)
	}, grants.ErrMalformed, false},
	{"a frame that names a dictionary", func(b *parcel) {
		list := b.frame[:b.batch.ListFrameBytes]
		b.frame = append(bytes.Clone(list), compressed(b.s.p.r.t, b.payloads, zstd.WithEncoderDictRaw(7, b.base()))...)
		b.batch.FrameBytes = uint64(len(b.frame))
	}, grants.ErrMalformed, false},
	{"a flipped bit", func(b *parcel) { b.frame[len(b.frame)-1] ^= 1 }, grants.ErrMalformed, false},
	{"a page alone", func(b *parcel) { b.batch.Alone, b.batch.FrameBytes = true, 0 }, grants.ErrMalformed, true},
}

func (b *parcel) base() []byte { return old(b.items.Items[0].Url) }

// again packs the items as they are now.
func (b *parcel) again() { b.under(b.base(), b.payloads) }

func TestHostilePatchesChangeNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(3)
	u := urls(site, 1)
	before, size, rows := r.stateOf(s)
	for _, tt := range hostilePatches {
		b := s.parcel(change{url: u[0], text: largeText(3000, 7)}).patched(map[string][]byte{u[0]: old(u[0])})
		tt.do(b)
		c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Batch{Batch: b.batch}})
		if !tt.ends {
			c.send(chunkOf(b.frame, false))
		}
		f := c.next()
		fault := f.GetBatchResult().GetRefused()
		if tt.ends {
			fault = f.GetFault()
		}
		if fault.GetReason() != string(tt.want) {
			t.Errorf("%s: answered %v, want %s", tt.name, f, tt.want)
		}
		if tt.ends || f.GetFault() != nil {
			c.close()
			c = s.p.session(s)
		}
		if after, n, m := r.stateOf(s); after.State != before.State || n != size || m != rows {
			t.Errorf("%s: it left traces", tt.name)
		}
	}
	b := s.parcel(change{url: u[0], text: largeText(3000, 7)}).patched(map[string][]byte{u[0]: old(u[0])})
	if a := c.deliver(b); a.Refused != nil {
		t.Errorf("the honest one behind them: %v", a.Refused)
	}
}

// FuzzPatch decodes any octets as the payloads of a patch batch, under any
// dictionary: what comes out has the announced length, and everything else a reason.
func FuzzPatch(f *testing.F) {
	base := old(site + "page")
	for _, raw := range [][]byte{payloadOf(site+"page", "words"), bytes.Repeat(base, 3), make([]byte, 1<<20)} {
		f.Add(compressed(f, raw, zstd.WithEncoderDictRaw(0, base)), base, uint32(len(raw)))
		f.Add(compressed(f, raw), base, uint32(len(raw)))
	}
	f.Fuzz(func(t *testing.T, frame, dictionary []byte, size uint32) {
		list := []byte("the list")
		size %= 4 << 20
		raw, err := unpatch(list, frame, dictionary, uint64(size)+uint64(len(list)))
		if err != nil {
			if _, ok := asRefusal(err); !ok {
				t.Fatalf("no reason: %v", err)
			}
			return
		}
		if len(raw) != len(list)+int(size) || !bytes.HasPrefix(raw, list) {
			t.Fatalf("%d octets", len(raw))
		}
	})
}
