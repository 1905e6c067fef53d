package indexer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// larges keeps the files of large pages: a folder for each series, named by its
// sid, and in it a file for each page, named by the file's number and the page.
// The catalogue row of a page names its file, and nothing else does: a file that
// is not named there, and on which nobody holds a lease, is an orphan. Whoever
// writes a file holds a lease from before it is there until its commit is
// answered (TestOrphansAreSweptAndNothingElse).
type larges struct {
	folder *durable.Folder

	// leasesMu guards leases and holds.
	leasesMu sync.Mutex
	leases   map[largeName]bool
	holds    int // who reads files of an earlier instant: until 0 none is swept
}

func newLarges(c Config) *larges {
	return &larges{folder: durable.OpenFolder(c.FS, filepath.Join(c.Dir, "large")), leases: make(map[largeName]bool)}
}

// A largeName is the name of one file.
type largeName struct {
	sid  uint32
	file uint64
	h    [32]byte // of the page's URL
}

func (n largeName) folder() string { return fmt.Sprintf("%08x", n.sid) }
func (n largeName) String() string { return fmt.Sprintf("%016x-%x", n.file, n.h) }

// parseLargeName accepts what folder and String print.
func parseLargeName(folder, name string) (n largeName, ok bool) {
	sid, err := strconv.ParseUint(folder, 16, 32)
	file, h, cut := strings.Cut(name, "-")
	number, numErr := strconv.ParseUint(file, 16, 64)
	raw, hexErr := hex.DecodeString(h)
	if errors.Join(err, numErr, hexErr) != nil || !cut || len(raw) != len(n.h) {
		return n, false
	}
	n = largeName{uint32(sid), number, [32]byte(raw)}
	return n, n.folder() == folder && n.String() == name
}

func (l *larges) lease(n largeName) {
	l.leasesMu.Lock()
	defer l.leasesMu.Unlock()
	l.leases[n] = true
}

func (l *larges) release(n largeName) {
	l.leasesMu.Lock()
	defer l.leasesMu.Unlock()
	delete(l.leases, n)
}

func (l *larges) leased(n largeName) bool {
	l.leasesMu.Lock()
	defer l.leasesMu.Unlock()
	return l.leases[n]
}

// hold keeps orphans from being swept until what it returns is called: a check or
// a backup reads the rows of one instant, and then their files. It does not keep
// a deletion waiting.
func (l *larges) hold() (end func()) {
	l.leasesMu.Lock()
	defer l.leasesMu.Unlock()
	l.holds++
	return func() {
		l.leasesMu.Lock()
		defer l.leasesMu.Unlock()
		l.holds--
	}
}

func (l *larges) held() bool {
	l.leasesMu.Lock()
	defer l.leasesMu.Unlock()
	return l.holds > 0
}

// list names the files of one series.
func (l *larges) list(sid uint32) ([]largeName, error) {
	folder := largeName{sid: sid}.folder()
	names, err := l.folder.Sub(folder).Names()
	var all []largeName
	for _, name := range names {
		if n, ok := parseLargeName(folder, name); ok {
			all = append(all, n)
		}
	}
	return all, err
}

// series names those that have or had files.
func (l *larges) series() ([]uint32, error) {
	names, err := l.folder.Names()
	var all []uint32
	for _, name := range names {
		if sid, err := strconv.ParseUint(name, 16, 32); err == nil && (largeName{sid: uint32(sid)}).folder() == name {
			all = append(all, uint32(sid))
		}
	}
	return all, err
}

// last is the highest number of a file. An orphan counts: the number of one must
// not be given again while it may be there.
func (l *larges) last() (last uint64, err error) {
	sids, err := l.series()
	for _, sid := range sids {
		names, failed := l.list(sid)
		err = errors.Join(err, failed)
		for _, n := range names {
			last = max(last, n.file)
		}
	}
	return last, err
}

// create begins a file. The caller holds its lease.
func (l *larges) create(n largeName) (*durable.NewFile, error) {
	return l.folder.Sub(n.folder()).Create(n.String())
}

func (l *larges) remove(n largeName) error { return l.folder.Sub(n.folder()).Remove(n.String()) }

// named reports whether the catalogue, as r shows it, names the file.
func (n largeName) named(r durable.Reader) (bool, error) {
	var row catalogueRow
	ok, err := readRow(r, sidKey('C', n.sid, n.h[:]...), &row)
	return ok && row.File == n.file, err
}

// removeOrphans removes those of the named files that are orphans.
//
// What the database shows may not be durable yet: an update that is seen there
// and then lost brings the old row back, and that needs its file. So a file goes
// only if neither the database nor the last release names it. The lease is
// looked at first: once it is free its commit is in both, or never comes.
func (x *Indexer) removeOrphans(all ...largeName) error {
	var failed error
	for _, n := range all {
		if x.large.held() || x.large.leased(n) {
			continue
		}
		alive, err := x.namedAnywhere(n)
		if err == nil && !alive {
			err = x.large.remove(n)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// removeFiles is removeOrphans after a commit that named other files in their
// place. What fails is found again by the sweep.
func (x *Indexer) removeFiles(all ...largeName) {
	if err := x.removeOrphans(all...); err != nil && x.tlog.Err() == nil {
		x.log.Error("files of large pages", "error", err)
	}
}

func (x *Indexer) namedAnywhere(n largeName) (bool, error) {
	released, done, err := x.released()
	if err != nil {
		return false, err
	}
	defer done()
	if alive, err := n.named(released); err != nil || alive {
		return alive, err
	}
	return n.named(x.store)
}

// sweepFiles removes all orphans.
func (x *Indexer) sweepFiles() {
	sids, err := x.large.series()
	for _, sid := range sids {
		all, failed := x.large.list(sid)
		err = errors.Join(err, failed, x.removeOrphans(all...))
	}
	if err != nil && x.tlog.Err() == nil {
		x.log.Error("files that nothing names", "error", err)
	}
}

// replaced is the files that a batch which is committed has taken the place of.
func (in *ingest) replaced() []largeName {
	var all []largeName
	for i := range in.items {
		if it := &in.items[i]; it.old != nil && it.old.File != 0 {
			all = append(all, largeName{in.held.rec.SID, it.old.File, it.h})
		}
	}
	return all
}

// open reads the frame of a large page.
func (l *larges) open(keys *dataKeys, rec *seriesRecord, n largeName, generation uint32) (io.ReadCloser, error) {
	a, err := keys.aead(rec.Publisher, rec.Series, generation, false)
	if err != nil {
		return nil, err
	}
	file, err := l.folder.Sub(n.folder()).Open(n.String())
	if err != nil {
		return nil, fmt.Errorf("file %d: %w", n.file, err)
	}
	r, err := newLargeReader(file, newLargeSeal(a, rec.Publisher, rec.Series, n.file))
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return struct {
		io.Reader
		io.Closer
	}{r, file}, nil
}

// maxLarge is above every payload that limits allow: a row that says more is
// damaged.
const maxLarge = 1 << 30

// payload reads a large page back, into one piece of memory of its size.
func (l *larges) payload(keys *dataKeys, rec *seriesRecord, row *catalogueRow) (_ []byte, err error) {
	if row.Length > maxLarge || row.Offset > aloneItems {
		return nil, fmt.Errorf("file %d is of an unexpected size", row.File)
	}
	h := sha256.Sum256([]byte(row.URL))
	frame, err := l.open(keys, rec, largeName{rec.SID, row.File, h}, row.DataKey)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, frame.Close()) }()
	d, err := newStreamDecoder(frame)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	if _, err := io.CopyN(io.Discard, d, int64(row.Offset)); err != nil {
		return nil, fmt.Errorf("file %d: %w", row.File, err)
	}
	payload := make([]byte, row.Length)
	if _, err := io.ReadFull(d, payload); err != nil {
		return nil, fmt.Errorf("file %d: %w", row.File, err)
	}
	if envelope.Hash(sha256.Sum256(payload)) != row.Digest {
		return nil, fmt.Errorf("file %d: page with another digest", row.File)
	}
	return payload, nil
}

// newStreamDecoder decompresses a frame as it comes, with a window of at most
// maxWindow.
func newStreamDecoder(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
}

// gone reports whether an error means that a page lies elsewhere by now: its
// key was destroyed, or its file was removed, behind the commit that said so.
func gone(err error) bool { return errors.Is(err, ErrNoDataKey) || errors.Is(err, fs.ErrNotExist) }
