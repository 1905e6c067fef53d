// Package thief reads what it can of an indexer's disk: it has a copy of the store and
// some keys, knows how both are made, and tries every key on all that is sealed. It
// shares none of the code that seals, so that the two can not be wrong in the same way.
// TestAThiefOpensNoLargePageThatWasDeleted lets it try.
package thief

import (
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Loot is what a thief has got open.
type Loot struct {
	Plain  []byte // all of it, one behind the other
	Sealed int    // segments and files that there were
	Opened int    // of them
	Keys   int    // that were tried on each
}

// Has reports whether words are in it.
func (l *Loot) Has(words string) bool { return strings.Contains(string(l.Plain), words) }

// Try tries every data key of one indexer's folder on everything that is sealed in
// another's, which may be the same. Neither is written to.
func Try(t testing.TB, stored, keys string) *Loot {
	t.Helper()
	l := new(Loot)
	r := &robber{t: t, loot: l}
	r.read(keys)
	l.Keys = len(r.keys)
	copied := filepath.Join(t.TempDir(), "store") // a store that is opened is written to
	check(t, os.CopyFS(copied, os.DirFS(filepath.Join(stored, "store"))))
	s, err := durable.Open(copied, durable.Options{Logger: slog.New(slog.DiscardHandler)})
	check(t, err)
	defer func() { check(t, s.Close()) }()
	for kv, err := range s.Scan([]byte{'R'}, []byte{'R' + 1}) {
		check(t, err)
		r.series = append(r.series, string(kv.Key))
	}
	for kv, err := range s.Scan([]byte{'G'}, []byte{'G' + 1}) {
		check(t, err)
		r.segment(binary.BigEndian.Uint64(kv.Key[len(kv.Key)-8:]), kv.Value)
	}
	large := filepath.Join(stored, "large")
	err = filepath.WalkDir(large, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		number, _, _ := strings.Cut(d.Name(), "-")
		file, err := strconv.ParseUint(number, 16, 64)
		if err != nil {
			return err
		}
		sealed, err := os.ReadFile(path)
		r.file(file, sealed)
		return err
	})
	if !os.IsNotExist(err) {
		check(t, err)
	}
	return l
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type robber struct {
	t      testing.TB
	loot   *Loot
	keys   []cipher.AEAD
	series []string // the keys of their records: everything is bound to one
}

// read reads the keys. All that lies beside them is tried, too, if it has the length.
func (r *robber) read(dir string) {
	err := filepath.WalkDir(filepath.Join(dir, "keys"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if hexed, bad := hex.DecodeString(strings.TrimSpace(string(raw))); bad == nil {
			raw = hexed
		}
		if a, bad := chacha20poly1305.NewX(raw); bad == nil {
			r.keys = append(r.keys, a)
		}
		return err
	})
	check(r.t, err)
}

// each tries every key for every series, until one opens it.
func (r *robber) each(open func(a cipher.AEAD, series string) ([]byte, bool)) {
	r.loot.Sealed++
	for _, a := range r.keys {
		for _, series := range r.series {
			if packed, ok := open(a, series); ok {
				r.loot.Opened++
				r.unpack(packed)
				return
			}
		}
	}
}

// segment is nonce and ciphertext, bound to series and number.
func (r *robber) segment(number uint64, sealed []byte) {
	r.each(func(a cipher.AEAD, series string) ([]byte, bool) {
		if len(sealed) < a.NonceSize() {
			return nil, false
		}
		bound := binary.BigEndian.AppendUint64([]byte("uzpif-oi/segment/v1\x00"+series), number)
		packed, err := a.Open(nil, sealed[:a.NonceSize()], sealed[a.NonceSize():], bound)
		return packed, err == nil
	})
}

// file is 19 octets of a nonce and then chunks of 256 KiB, each with its tag. One that is
// opened is enough: no file that is cut short, or damaged, keeps the rest back.
func (r *robber) file(number uint64, sealed []byte) {
	const prefix, chunk = chacha20poly1305.NonceSizeX - 5, 256<<10 + chacha20poly1305.Overhead
	if len(sealed) < prefix {
		return
	}
	r.each(func(a cipher.AEAD, series string) (packed []byte, ok bool) {
		bound := binary.BigEndian.AppendUint64([]byte("uzpif-oi/large-file/v1\x00"+series), number)
		rest := sealed[prefix:]
		for i := uint32(0); len(rest) > 0; i++ {
			n := min(chunk, len(rest))
			for last := range byte(2) {
				tail := append(binary.BigEndian.AppendUint32(nil, i), last)
				nonce := append(append([]byte{}, sealed[:prefix]...), tail...)
				plain, err := a.Open(nil, nonce, rest[:n], append(append([]byte{}, bound...), tail...))
				if err == nil {
					packed, ok = append(packed, plain...), true
				}
			}
			rest = rest[n:]
		}
		return packed, ok
	})
}

// unpack keeps what can be decompressed, however little.
func (r *robber) unpack(packed []byte) {
	d, err := zstd.NewReader(strings.NewReader(string(packed)), zstd.WithDecoderConcurrency(1))
	check(r.t, err)
	defer d.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := d.Read(buffer)
		r.loot.Plain = append(r.loot.Plain, buffer[:n]...)
		if err != nil {
			return
		}
	}
}
