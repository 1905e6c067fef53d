package indexer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"golang.org/x/crypto/chacha20poly1305"
	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// sealing is the seal of one file, made anew for each use of it.
func sealing(t testing.TB, key byte, series string, file uint64) *largeSeal {
	t.Helper()
	a, err := chacha20poly1305.NewX(bytes.Repeat([]byte{key}, chacha20poly1305.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return newLargeSeal(a, envelope.Name("spiffe://example.com/publisher"), series, file)
}

// sealed writes plain in pieces, as they come from a network.
func sealed(t testing.TB, s *largeSeal, plain []byte, piece int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := newLargeWriter(&out, s)
	for err == nil && len(plain) > 0 {
		n := min(piece, len(plain))
		_, err = w.Write(plain[:n])
		plain = plain[n:]
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func opened(s *largeSeal, file []byte) ([]byte, error) {
	r, err := newLargeReader(bytes.NewReader(file), s)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func noise(n int, seed uint64) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestWhatWasSealedInChunksIsOpened(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 1000, largeChunk - 1, largeChunk, largeChunk + 1, 2 * largeChunk, 2*largeChunk + 17}).Draw(rt, "size")
		piece := rapid.SampledFrom([]int{largeChunk / 3, largeChunk - 1, largeChunk, largeChunk + 1, 1 << 20}).Draw(rt, "piece")
		plain := noise(size, uint64(size))
		file := sealed(t, sealing(t, 1, "docs", 7), plain, piece)
		got, err := opened(sealing(t, 1, "docs", 7), file)
		if err != nil || !bytes.Equal(got, plain) {
			rt.Fatalf("%d of %d octets, %v", len(got), size, err)
		}
	})
}

func TestSealedFilesOpenOnlyWhole(t *testing.T) {
	plain := noise(3*largeChunk, 5)
	file := sealed(t, sealing(t, 1, "docs", 7), plain, len(plain))
	const chunk = largeChunk + chacha20poly1305.Overhead
	at := func(n int) int { return largePrefix + n*chunk }
	other := sealed(t, sealing(t, 1, "docs", 7), plain, len(plain))
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	for _, tt := range []struct {
		name string
		file []byte
		seal *largeSeal
	}{
		{"a file of nothing", nil, nil},
		{"a file that ends within its random octets", file[:largePrefix-1], nil},
		{"a file without a chunk", file[:largePrefix], nil},
		{"a file that ends behind its first chunk", file[:at(1)], nil},
		{"a file without its last chunk", file[:at(2)], nil},
		{"a file without its last octet", file[:at(3)-1], nil},
		{"a file that ends one octet into a chunk", file[:at(2)+1], nil},
		{"a file with an octet more", join(file, []byte{0}), nil},
		{"a file with a chunk more", join(file, file[at(2):]), nil},
		{"two chunks that changed places", join(file[:at(0)], file[at(1):at(2)], file[at(0):at(1)], file[at(2):]), nil},
		{"a chunk twice in place of the next", join(file[:at(1)], file[at(0):at(1)], file[at(2):]), nil},
		{"a file without its first chunk", join(file[:at(0)], file[at(1):]), nil},
		{"a chunk of another sealing of the same", join(file[:at(1)], other[at(1):at(2)], file[at(2):]), nil},
		{"the random octets of another sealing", join(other[:at(0)], file[at(0):]), nil},
		{"another number of the file", file, sealing(t, 1, "docs", 8)},
		{"another series", file, sealing(t, 1, "doc", 7)},
		{"another key", file, sealing(t, 2, "docs", 7)},
	} {
		s := tt.seal
		if s == nil {
			s = sealing(t, 1, "docs", 7)
		}
		got, err := opened(s, tt.file)
		if err == nil {
			t.Errorf("%s opens", tt.name)
		}
		if !bytes.Equal(got, plain[:len(got)]) || len(got)%largeChunk != 0 {
			t.Errorf("%s gives %d octets that were not sealed", tt.name, len(got))
		}
	}
	rng := rand.New(rand.NewPCG(9, 9))
	for range 40 { // and any bit
		b := bytes.Clone(file)
		b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		if _, err := opened(sealing(t, 1, "docs", 7), b); err == nil {
			t.Fatal("a file with a flipped bit opens")
		}
	}
}

func FuzzLargeName(f *testing.F) {
	n := largeName{sid: 5, file: 1 << 40, h: [32]byte{1, 2}}
	f.Add(n.folder(), n.String())
	f.Add("00000005", "x-")
	f.Fuzz(func(t *testing.T, folder, name string) {
		if n, ok := parseLargeName(folder, name); ok && (n.folder() != folder || n.String() != name) {
			t.Errorf("%q, %q reads as %+v", folder, name, n)
		}
	})
}

func TestLargeNamesArePrintedAndRead(t *testing.T) {
	n := largeName{sid: 0xfe, file: 3, h: [32]byte{31: 0xab}}
	if got, ok := parseLargeName(n.folder(), n.String()); !ok || got != n {
		t.Errorf("%s/%s reads as %+v, %v", n.folder(), n, got, ok)
	}
	for _, bad := range []string{"", "-", n.String() + "0", "+" + n.String()[1:], fmt.Sprintf("%X-%x", 0xabc, n.h), ".tmp"} {
		if _, ok := parseLargeName(n.folder(), bad); ok {
			t.Errorf("%q is taken for a name", bad)
		}
	}
}
