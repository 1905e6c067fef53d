package indexer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/fsck"
)

// The kinds of findings beside those of the log.
const (
	findSeries  fsck.Kind = "series"  // an agreement's record, or its state
	findPage    fsck.Kind = "page"    // a catalogue row, or the payload that it names
	findSegment fsck.Kind = "segment" // a sealed frame
	findKey     fsck.Kind = "key"     // a data key that is not there
	findAnswer  fsck.Kind = "answer"  // an answer that was kept
)

// A FsckReport is what `indexerd fsck --json` prints: what is said of the log,
// and what the rest of the store holds.
type FsckReport struct {
	fsck.Report
	Series       uint64 `json:"series"`
	Pages        uint64 `json:"pages"` // whose payload was opened
	PayloadBytes uint64 `json:"payload_bytes"`
	Segments     uint64 `json:"segments"`
	Answers      uint64 `json:"answers"`
}

// String is the report for people.
func (r *FsckReport) String() string {
	return r.Report.String() + fmt.Sprintf("and %d series, %d pages of %d octets in %d segments, %d answers\n",
		r.Series, r.Pages, r.PayloadBytes, r.Segments, r.Answers)
}

// FsckOptions say what is checked.
type FsckOptions struct {
	// LogOnly leaves catalogue, segments and answers alone.
	LogOnly bool
	// Progress, if it is set, is called with how many of the log's entries are
	// done.
	Progress func(done, total uint64)
	// NoMark does not miss the high-water mark. That of a backup, which a
	// manifest tells, is not missed in any case.
	NoMark bool
	// FS is the file system of the store; nil means the operating system's.
	FS durable.FS
}

// spaces are the first octets of the rows that an indexer's store may hold; see
// rows.go.
const spaces = "ABCDEFGHJLNOPQRTUVWXZbu"

// Fsck checks everything that was committed up to now, while the indexer goes
// on.
func (x *Indexer) Fsck(ctx context.Context, o FsckOptions) (*FsckReport, error) {
	defer x.large.hold()()
	log := x.local.Card.Log
	mark, err := readMark(x.cfg.FS, x.cfg.Dir, log)
	if err != nil {
		return nil, err
	}
	var least uint64
	if mark != nil {
		least = mark.Size
	}
	rows, done, err := x.releasedOf(ctx, least) // the mark leads it
	if err != nil {
		return nil, err
	}
	defer done()
	c := &checker{r: rows, store: x.store, keys: x.keys, large: x.large, decoder: x.decoder, limits: x.cfg.Limits, card: x.local.Card, window: windowPages}
	return c.run(ctx, mark, o)
}

// released is the rows of the whole store as of the newest release, until done
// is called.
func (x *Indexer) released() (rows durable.Reader, done func(), err error) {
	return x.releasedOf(context.Background(), 0)
}

// releasedOf is released, of a tree of that size at least; see translog.Log.SnapshotOf. A
// log that is only read releases nothing any more.
func (x *Indexer) releasedOf(ctx context.Context, size uint64) (rows durable.Reader, done func(), err error) {
	s, err := x.tlog.SnapshotOf(ctx, size)
	if err == nil {
		return s.Reader, s.Close, nil
	}
	if !errors.Is(err, translog.ErrReadOnly) {
		return nil, nil, err
	}
	all, err := x.store.Snapshot()
	if err != nil {
		return nil, nil, err
	}
	return all, func() { _ = all.Close() }, nil // a snapshot has nothing to lose
}

// FsckFolder checks the indexer that lives in dir, or a backup of one, without
// changing it. No indexer may have it open. Errors: durable.ErrLocked; what ends
// the check. A store that cannot be opened is a finding.
func FsckFolder(ctx context.Context, dir string, o FsckOptions) (*FsckReport, error) {
	card, err := readCard(dir)
	if err != nil {
		return nil, err
	}
	c := &checker{card: card, keys: newDataKeys(filepath.Join(dir, "keys", "data")), large: newLarges(Config{Dir: dir, FS: o.FS}), limits: DefaultLimits(), window: windowPages}
	mark, err := readMark(o.FS, dir, card.Log)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, manifestFile)); err == nil {
		o.NoMark = true
	}
	s, err := durable.OpenReadOnly(filepath.Join(dir, "store"), durable.Options{Logger: slog.New(slog.DiscardHandler), FS: o.FS, CacheBytes: durable.CacheOnce})
	switch {
	case errors.Is(err, durable.ErrLocked):
		return nil, err
	case err != nil:
		return &FsckReport{Report: fsck.Report{Origin: card.Log.Origin, Findings: []fsck.Finding{
			{Kind: fsck.Unreadable, Key: "store", Detail: err.Error()},
		}}}, nil
	}
	defer s.Close() // it was only read: there is nothing to lose
	if c.decoder, err = newDecoder(c.limits); err != nil {
		return nil, err
	}
	defer c.decoder.Close()
	c.r, c.store = s, s
	return c.run(ctx, mark, o)
}

// readCard reads the card of the identity in dir as of its own time: one that
// has run out is still whose log it is.
func readCard(dir string) (*identity.Card, error) {
	f, err := os.Open(filepath.Join(dir, "identity.json"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, identity.ErrNoIdentity, err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, envelope.MaxSize+1))
	if err != nil {
		return nil, err
	}
	card, err := identity.AuthenticateCard(raw)
	if err == nil && card.Log == nil {
		err = fmt.Errorf("the identity is a %s's", card.Role)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return card, nil
}

// readMark reads the high-water mark of a log; nil if there is none.
func readMark(files durable.FS, dir string, log *identity.Log) (*translog.Tree, error) {
	mark, ok, err := translog.ReadMark(files, dir, log.Origin, log.VKey)
	if err != nil || !ok {
		return nil, err
	}
	return &mark, nil
}

// windowPages is the window of a check: some 200 octets of memory for each page.
const windowPages = 1 << 18

// A checker checks the rows of one instant.
type checker struct {
	r       durable.Reader
	store   *durable.Store // of which r is
	keys    *dataKeys
	large   *larges
	decoder *zstd.Decoder
	limits  Limits
	card    *identity.Card
	report  *FsckReport
	window  int // pages of a series that are looked for at once in segments

	logs []translog.Identity
	last map[envelope.Hash]lastEntry // by collection_ref
}

// A lastEntry is what the newest entry of a series says of its state.
type lastEntry struct {
	epoch, through uint64
	state          envelope.Hash
	deleted        bool // by a revocation: it says what the state was before
}

func (c *checker) run(ctx context.Context, mark *translog.Tree, o FsckOptions) (*FsckReport, error) {
	c.last = make(map[envelope.Hash]lastEntry)
	log, err := fsck.Store(ctx, c.r, fsck.Options{
		VKey: c.card.Log.VKey, Keys: c.card, Signatures: true, Indexer: c.card.Identity,
		Mark: mark, MarkRequired: !o.NoMark, Progress: o.Progress,
		Visit: func(_ uint32, _ *envelope.Object, e *translog.Entry) {
			c.last[e.CollectionRef] = lastEntry{e.JournalEpoch, e.Through, e.State, e.Status == translog.Revoked}
		},
	})
	if err != nil {
		return nil, err
	}
	c.report = &FsckReport{Report: *log}
	if o.LogOnly {
		return c.report, nil
	}
	if c.logs, err = translog.Identities(c.r); err != nil {
		c.logs = nil // a finding already
	}
	for _, step := range []func(context.Context) error{c.spaces, c.series, c.tables} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return c.report, nil
}

func (c *checker) find(kind fsck.Kind, index uint64, key, format string, args ...any) {
	c.report.Add(fsck.Finding{Kind: kind, Index: index, Key: key, Detail: fmt.Sprintf(format, args...)})
}

// unreadable makes an error of the store a finding, unless nothing can be read
// any more.
func (c *checker) unreadable(ctx context.Context, key string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || errors.Is(err, durable.ErrClosed) {
		return err
	}
	c.find(fsck.Unreadable, 0, key, "%v", err)
	return nil
}

// spaces looks for rows outside all spaces. It jumps from space to space, and
// reads one row of each.
func (c *checker) spaces(ctx context.Context) error {
	for lo := []byte{0}; lo != nil; {
		var next []byte
		for row, err := range c.r.Scan(lo, nil) {
			if err != nil {
				return c.unreadable(ctx, "rows", err)
			}
			if !strings.Contains(spaces, string(row.Key[:1])) {
				c.find(fsck.Stray, 0, fmt.Sprintf("row %.80x", row.Key), "nothing of an indexer belongs there")
			}
			next = durable.PrefixEnd(row.Key[:1])
			break
		}
		lo = next
	}
	return nil
}

// tables looks for damage where no row is: a merge comes to it one day, and ends the
// store.
func (c *checker) tables(ctx context.Context) error {
	return c.store.CheckTables(ctx, func(table string, err error) {
		c.find(fsck.Unreadable, 0, "table "+table, "%v", err)
	})
}

// series checks each agreement, and that no row belongs to none.
func (c *checker) series(ctx context.Context) error {
	known := make(map[uint32]bool)
	for kv, err := range c.r.Scan([]byte{'R'}, []byte{'R' + 1}) {
		if err != nil {
			return c.unreadable(ctx, "series", err)
		}
		rec := new(seriesRecord)
		if err := json.Unmarshal(kv.Value, rec); err != nil {
			c.find(findSeries, 0, fmt.Sprintf("row %.200q", kv.Key), "%v", err)
			continue
		}
		if string(kv.Key) != string(seriesKey(rec.Publisher, rec.Series)) || known[rec.SID] {
			c.find(findSeries, 0, rec.Series, "its record stands under another key, or its number %d is another's too", rec.SID)
		}
		known[rec.SID] = true
		c.report.Series++
		s := &seriesChecker{c, rec}
		for _, step := range []func(context.Context) error{s.catalogue, s.payloads, s.retention, s.answers} {
			if err := step(ctx); err != nil {
				return err
			}
		}
	}
	return c.orphans(ctx, known)
}

// orphans finds rows of a series that is not there, by one of them each.
func (c *checker) orphans(ctx context.Context, known map[uint32]bool) error {
	for _, space := range "BCDEGHJPQTWZb" {
		lo, hi := []byte{byte(space)}, []byte{byte(space) + 1}
		for lo != nil {
			next := []byte(nil)
			for row, err := range c.r.Scan(lo, hi) {
				if err != nil {
					return c.unreadable(ctx, "rows", err)
				}
				if len(row.Key) < 5 || !known[sidOf(row.Key)] {
					c.find(fsck.Stray, 0, fmt.Sprintf("row %.80x", row.Key), "it is of no series")
				}
				next = append(append(next, row.Key...), 0)
				if len(row.Key) >= 5 {
					next = durable.PrefixEnd(row.Key[:5])
				}
				break
			}
			lo = next
		}
	}
	return nil
}
