package publisher

import (
	"bytes"
	"os"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// A frame of few pages loses at most a twentieth by its small tables, and a patch of one
// page a third; all come back as they were.
func TestSmallFramesAreSmall(t *testing.T) {
	page, err := os.ReadFile("../../doc/operations.md") // as real pages are: words, tables, markup
	check(t, err)
	page = page[:min(len(page), 12<<10)]
	edited := bytes.ReplaceAll(page, []byte("indexer"), []byte("consumer"))
	for _, tt := range []struct {
		name            string
		raw, dictionary []byte
	}{
		{"a page", page, nil},
		{"an edited page", edited, page},
		{"a line", page[:200], nil},
		{"a line of a page", edited[:1000], page},
		{"many pages", bytes.Repeat(page, 15), nil},
	} {
		most := smallFrame
		if tt.dictionary != nil {
			most = smallPatch
		}
		if len(tt.raw)+len(tt.dictionary) > most {
			t.Fatalf("%s: %d and %d octets are no small frame", tt.name, len(tt.raw), len(tt.dictionary))
		}
		frame, err := encodeFrame(tt.raw, tt.dictionary)
		check(t, err)
		eo, do := []zstd.EOption{zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithWindowSize(maxWindow)}, []zstd.DOption{zstd.WithDecodeAllCapLimit(false)}
		if tt.dictionary != nil {
			eo, do = append(eo, zstd.WithEncoderDictRaw(0, tt.dictionary)), append(do, zstd.WithDecoderDictRaw(0, tt.dictionary))
		}
		e, err := zstd.NewWriter(nil, eo...)
		check(t, err)
		best := e.EncodeAll(tt.raw, nil)
		check(t, e.Close())
		loss := len(best) / 20
		if tt.dictionary != nil {
			loss = len(best) / 3
		}
		if len(frame) > len(best)+loss {
			t.Errorf("%s: %d octets, with large tables %d", tt.name, len(frame), len(best))
		}
		t.Logf("%s: %d octets of %d, with large tables %d", tt.name, len(frame), len(tt.raw), len(best))
		d, err := zstd.NewReader(nil, do...)
		check(t, err)
		got, err := d.DecodeAll(frame, nil)
		d.Close()
		if err != nil || !bytes.Equal(got, tt.raw) {
			t.Errorf("%s: %d octets come back, %v", tt.name, len(got), err)
		}
	}
}

// The encoders of large frames are kept as long as anything is pushed, and no longer.
func TestLargeEncodersGoWithTheLastPush(t *testing.T) {
	var f framer
	raw := bytes.Repeat([]byte("words and words "), smallFrame/16+1)
	kept := func() (n int) {
		for range frameTurns {
			e := <-f.turns
			if e != nil {
				n++
			}
			f.turns <- e
		}
		return n
	}
	first, second := f.push(), f.push()
	for range 3 {
		if _, err := f.encode(len(raw), func(b []byte) ([]byte, error) { return append(b, raw...), nil }); err != nil {
			t.Fatal(err)
		}
	}
	first()
	if n := kept(); n < 1 {
		t.Errorf("%d encoders are kept while a session pushes", n)
	}
	if second(); kept() != 0 {
		t.Errorf("%d encoders are kept, and no session pushes", kept())
	}
	if _, err := f.encode(len(raw), func(b []byte) ([]byte, error) { return append(b, raw...), nil }); err != nil || kept() != 0 {
		t.Errorf("%d encoders are kept, and no session pushes; %v", kept(), err)
	}
}

// Sessions that come to the same octets share a frame, while there are several.
func TestSessionsShareFrames(t *testing.T) {
	var f framer
	encode := func(n int) []byte {
		raw := bytes.Repeat([]byte("words and words "), smallFrame/16+n)
		frame, err := f.encode(len(raw), func(b []byte) ([]byte, error) { return append(b, raw...), nil })
		check(t, err)
		d, err := zstd.NewReader(nil)
		check(t, err)
		defer d.Close()
		if got, err := d.DecodeAll(frame, nil); err != nil || !bytes.Equal(got, raw) {
			t.Fatalf("%d octets come back, %v", len(got), err)
		}
		return frame
	}
	first := f.push()
	if a, b := encode(1), encode(1); &a[0] == &b[0] || len(f.shared) > 0 {
		t.Error("frames are kept for one session alone")
	}
	second := f.push()
	a := encode(1)
	for n := range frameShares {
		if b := encode(1); &a[0] != &b[0] {
			t.Error("the same octets are compressed again")
		}
		if b := encode(2 + n); &a[0] == &b[0] || len(f.shared) > frameShares {
			t.Errorf("other octets in the same frame, or %d frames are kept", len(f.shared))
		}
	}
	if b := encode(1); &a[0] == &b[0] {
		t.Error("the frame that is the oldest is still kept")
	}
	if second(); len(f.shared) > 0 {
		t.Errorf("%d frames are kept for nobody", len(f.shared))
	}
	first()
}
