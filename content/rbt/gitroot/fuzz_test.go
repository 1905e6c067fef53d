package gitroot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
)

// FuzzPack shows that no pack makes receive panic or take more than its limits,
// and that it leaves nothing behind but what it took.
func FuzzPack(f *testing.F) {
	blob := packObject{plumbing.BlobObject, -1, []byte("hello, world"), 0}
	f.Add(handmade(1, blob))
	f.Add(handmade(2, blob, packObject{plumbing.OFSDeltaObject, -1, delta(12, 5, 0x90, 5), 0}))
	f.Add(handmade(1, packObject{plumbing.BlobObject, 1 << 30, []byte("x"), 0}))
	limits := Limits{Pack: 1 << 16, Objects: 100, Object: 1 << 16, Inflated: 1 << 18}
	if err := limits.complete(); err != nil {
		f.Fatal(err)
	}
	held := &Repository{client: &Client{}, dir: f.TempDir(), limits: limits}
	if err := held.initialise(); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { held.Close() })
	if err := receive(f.Context(), filepath.Join(held.dir, "objects", "pack"), bytes.NewReader(handmade(1, blob)), limits, asItIs); err != nil {
		f.Fatal(err)
	}
	if err := held.reopen(); err != nil {
		f.Fatal(err)
	}
	name := plumbing.ComputeHash(plumbing.BlobObject, blob.content)
	f.Add(handmade(1, packObject{plumbing.REFDeltaObject, -1, append(name[:], delta(12, 5, 0x90, 5)...), 0}))
	f.Fuzz(func(t *testing.T, pack []byte) {
		err := receive(context.Background(), t.TempDir(), bytes.NewReader(pack), limits, held.complete)
		if err != nil && !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrTooLarge) && !errors.Is(err, errIncomplete) {
			t.Errorf("an error without a name: %v", err)
		}
	})
}

// FuzzAnswer shows the same of what stands before a pack, and of refs.
func FuzzAnswer(f *testing.F) {
	id := strings.Repeat("ab", 20)
	f.Add([]byte(fmt.Sprintf("0035shallow %s\n00000008NAK\nPACK", id)), true)
	f.Add([]byte(fmt.Sprintf("0031ACK %s\n0008NAK\n0009\x01PACK0000", id)), false)
	f.Add([]byte(fmt.Sprintf("001e# service=git-upload-pack\n0000003f%s HEAD\x00ofs-delta\n0000", id)), false)
	f.Fuzz(func(t *testing.T, data []byte, cut bool) {
		if a, err := readAnswer(bytes.NewReader(data), cut, sideband.Sideband64k); err == nil && len(a.shallow)+len(a.unshallow) > maxShallow {
			t.Error("more shallow commits than are allowed")
		}
		adv, err := readAdvertised(bytes.NewReader(data))
		if err == nil && adv == nil {
			t.Error("neither refs nor an error")
		}
	})
}

// FuzzPointer shows that a pointer of LFS is one, or is not taken for one.
func FuzzPointer(f *testing.F) {
	f.Add([]byte(lfsVersion + "oid sha256:" + strings.Repeat("0a", 32) + "\nsize 12345\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if p := parseLFS(data); p != nil && (len(p.OID) != 64 || p.Size < 0 || len(data) >= 1024) {
			t.Errorf("%q is a pointer to %+v", data, p)
		}
	})
}
