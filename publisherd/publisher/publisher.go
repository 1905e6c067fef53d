package publisher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/link"
	"github.com/uzpif-oi/uzpif-oi/internal/tracing"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Config is what a Publisher is opened with.
type Config struct {
	// Dir holds configuration, keys, sources, trust, grants and the store.
	Dir string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log receives one line an event; nil discards.
	Log *slog.Logger
	// Room is what the store keeps free of its disk; Stall is how long a write
	// may take before it is reported, 0 means 30 s.
	Room  durable.Room
	Stall time.Duration
	// Verify is how often all files of a folder are read, even those of which the
	// file system says that they have not moved; 0 means 24 h, less than 0 with
	// each scan.
	Verify time.Duration
	// Reply is how long an indexer may take for one answer; 0 means 2 minutes.
	Reply time.Duration
	// Proxy is the HTTP proxy through which indexers are dialled: its URL, "off",
	// or nothing for that of the environment. ProxyCredentials is the file of the
	// credential for it, of the form of a source's.
	Proxy, ProxyCredentials string
	// PatchBytes is how many octets of acknowledged payloads are kept for each
	// agreement, to send changes as patches; 0 means 256 MiB, negative none.
	PatchBytes int64
	// Rand is where random octets come from that nobody may foresee; nil means
	// the operating system's.
	Rand io.Reader
	// Trace makes spans of the work; nil makes none.
	Trace *tracing.Tracer
	// FS is the file system of the store; nil means the operating system's.
	// Tests set it.
	FS durable.FS
	// Certificate is where somebody else keeps the certificate and renews it;
	// nil: the identity issues its own.
	Certificate *identity.CertificateFiles
}

// A Publisher is one identity with its collections, grants and receipts. It
// holds the store's lock until Close.
type Publisher struct {
	dir   string
	log   *slog.Logger
	clock func() time.Time
	local *identity.Local
	trust *identity.Trust
	store *durable.Store

	reply     atomic.Int64 // a time.Duration, see Config
	verify    atomic.Int64 // a time.Duration, see Config
	random    io.Reader    // see Config
	keptBytes int64        // see Config.PatchBytes

	proxy       func(address string) (*url.URL, error) // nil: none
	frames      framer
	largeMu     sync.Mutex // held while a large page is made out of its source, to be sent
	proxySecret string     // see Config

	highest highest
	pulse   *pulse
	trace   *tracing.Tracer // nil makes no spans
	// public opens the public log of an indexer; nil compares none.
	public func(*identity.Log) (publicLog, error)

	// goroutines are the readers of streams: each ends with its stream.
	goroutines sync.WaitGroup

	// revocationsMu is held while the files of revocations are brought up to
	// what an indexer answered.
	revocationsMu sync.Mutex

	// readers outlive the scans that use them.
	readers readers
	// spools are those of each collection's last scan.
	spools spools

	// editsMu guards edits, which holds the lock of each collection's journal.
	editsMu sync.Mutex
	edits   map[string]*sync.Mutex
}

// Open opens the publisher that lives in c.Dir.
func Open(c Config) (*Publisher, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	local, err := identity.Load(c.Dir, c.Now())
	if err != nil {
		return nil, err
	}
	if local.Role() != identity.Publisher {
		return nil, fmt.Errorf("the identity in %s is an %s's", c.Dir, local.Role())
	}
	if c.Certificate != nil {
		if err := local.UseFiles(*c.Certificate, c.Now()); err != nil {
			c.Log.Error("certificate", "error", err)
		}
	} else if _, err := local.Renew(c.Now(), nil); err != nil {
		return nil, fmt.Errorf("certificate: %w", err)
	}
	trust, err := identity.OpenTrust(trustDir(c.Dir), identity.TrustOptions{
		Now: c.Now, Report: func(err error) { c.Log.Error("trust", "error", err) },
	})
	if err != nil {
		return nil, err
	}
	proxy, err := link.ProxyFor(c.Proxy)
	if err != nil {
		return nil, err
	}
	store, err := durable.Open(filepath.Join(c.Dir, "store"), durable.Options{CacheBytes: storeCache, Logger: c.Log, Room: c.Room, Stall: c.Stall, FS: c.FS})
	if err != nil {
		return nil, err
	}
	p := &Publisher{dir: c.Dir, log: c.Log, clock: c.Now, local: local, trust: trust, store: store, edits: make(map[string]*sync.Mutex),
		keptBytes: c.PatchBytes, random: c.Rand, proxy: proxy, proxySecret: c.ProxyCredentials, pulse: newPulse(), trace: c.Trace}
	p.public = p.openPublic
	if err := p.noteOpening(); err != nil { // a full disk; the next opening finds the same
		c.Log.Error("store", "error", err)
	}
	p.SetReply(c.Reply)
	p.SetVerify(c.Verify)
	return p, nil
}

// SetReply sets, at any time, how long an indexer may take for one answer; 0 means
// 2 minutes.
func (p *Publisher) SetReply(d time.Duration) { p.reply.Store(int64(d)) }

// SetVerify sets, at any time, how often all files of a folder are read; see
// Config.Verify.
func (p *Publisher) SetVerify(d time.Duration) { p.verify.Store(int64(cmp.Or(d, defaultVerify))) }

func trustDir(dir string) string { return filepath.Join(dir, "trust") }

// OpenTrust opens the trust store of the publisher in dir.
func OpenTrust(dir string) (*identity.Trust, error) {
	return identity.OpenTrust(trustDir(dir), identity.TrustOptions{})
}

// Close ends what runs and closes the store.
func (p *Publisher) Close() error {
	p.goroutines.Wait()
	p.readers.close()
	p.spools.close()
	return p.store.Close()
}

func (p *Publisher) now() time.Time { return p.clock() }

// Identity is the publisher's name.
func (p *Publisher) Identity() envelope.Name { return p.local.Name() }

// logTree reads the last verified tree of an indexer's log, or of the one before
// a rotation that was not met with yet. A note of a log that no trusted card
// names any more counts for nothing: trust was taken away and given anew.
func (p *Publisher) logTree(indexer envelope.Name) (translog.Tree, []byte, error) {
	note, err := p.store.Get(treeKey(indexer))
	if errors.Is(err, durable.ErrNotFound) {
		return translog.Tree{}, nil, nil
	}
	if err != nil {
		return translog.Tree{}, nil, err
	}
	peer, ok := p.trust.Lookup(indexer)
	if !ok || peer.Card.Log == nil {
		return translog.Tree{}, nil, &Refused{Reason: grants.ErrUnknownPeer, Detail: string(indexer)}
	}
	log, ok := peer.LogOf(translog.OriginOf(note))
	if !ok {
		return translog.Tree{}, nil, nil
	}
	tree, err := translog.OpenNote(note, log.VKey)
	if err != nil {
		return translog.Tree{}, nil, fmt.Errorf("stored checkpoint of %s: %w", indexer, err)
	}
	return tree, note, nil
}

// setLogTree stores a verified note, unless it is the one that is stored.
func (p *Publisher) setLogTree(indexer envelope.Name, note []byte) error {
	old, err := p.store.Get(treeKey(indexer))
	if err == nil && string(old) == string(note) {
		return nil
	}
	if err != nil && !errors.Is(err, durable.ErrNotFound) {
		return err
	}
	b := p.store.NewBatch()
	defer b.Close()
	if err := b.Set(treeKey(indexer), note); err != nil {
		return err
	}
	return b.Commit()
}

// pairOf finds the grant with its policy that a manifest names: the one in
// force, or one before it.
func (p *Publisher) pairOf(rel *Relationship, grant envelope.Hash) (grants.Pair, error) {
	if rel.Pair.Grant.Object.ID == grant {
		return rel.Pair, nil
	}
	g, err := readObject(p.dir, grant)
	if err != nil {
		return grants.Pair{}, fmt.Errorf("grant %s: %w", grant, err)
	}
	opened, err := grants.ReadGrant(g)
	if err != nil {
		return grants.Pair{}, fmt.Errorf("grant %s: %w", grant, err)
	}
	pol, err := readObject(p.dir, opened.Body.PolicyHash)
	if err != nil {
		return grants.Pair{}, fmt.Errorf("policy %s: %w", opened.Body.PolicyHash, err)
	}
	return grants.ReadPair(g, pol)
}

// journal is the one of a collection, to read and to edit.
func (p *Publisher) journal(collection string) journal {
	p.editsMu.Lock()
	defer p.editsMu.Unlock()
	if p.edits[collection] == nil {
		p.edits[collection] = new(sync.Mutex)
	}
	return journal{p.store, collection, p.edits[collection]}
}

// storeCache is for blocks of the store: rows are small, and look-ups of what is not
// there, which are most, need the filters of tables alone: 15 MiB for a million pages and
// three indexers.
const storeCache = 24 << 20

// A collection is a source with its journal. Its cache is filled by one scan.
type collection struct {
	name    string
	journal journal
	source  reader
	version string
	cache   *payloads
	afar    bool // to read a page again is to ask another server for it
}

// mirrored reports whether what the source gave is on this disk already.
func (c *collection) mirrored() bool {
	_, ok := c.source.(*scp.Source)
	return ok
}

func (p *Publisher) collection(name string) (*collection, error) {
	s, err := ReadSource(p.dir, name)
	if err != nil {
		return nil, err
	}
	r, err := p.readers.lookup(p.dir, s)
	if err != nil {
		return nil, err
	}
	return &collection{name: name, journal: p.journal(name), source: r, version: r.Extraction(), cache: newPayloads(), afar: s.isAfar()}, nil
}

// scan brings the collection's journal up to its source.
// Grown is called as scanner.grown is.
func (p *Publisher) scan(ctx context.Context, c *collection, massDelete bool, grown func()) (ScanReport, error) {
	// What is left is for receipts. A store that has failed ends the daemon.
	if err := cmp.Or(p.store.Err(), p.store.Room()); err != nil {
		return ScanReport{}, fmt.Errorf("source %s: %w", c.name, err)
	}
	free := p.store.Disk().Free
	if s := p.spools.begin(c.name, p.dir, free); !c.mirrored() {
		c.cache.spool = s
	}
	s := scanner{journal: c.journal, source: c.source, extractor: c.version, cache: c.cache, sorter: newPageSorter(p.dir, free, !c.mirrored()), now: p.now, massDelete: massDelete, verify: time.Duration(p.verify.Load()), grown: grown}
	s.keep = func(stated content.Preferences) error { return keepPreferences(p.dir, c.name, stated) }
	r, err := s.run(ctx)
	if err != nil {
		return r, fmt.Errorf("source %s: %w", c.name, err)
	}
	p.log.Info("scanned", "collection", c.name, "pages", r.Pages, "read", r.Read, "changed", r.Changed, "deleted", r.Deleted, "skipped", len(r.Skipped), "unchanged", r.Unchanged)
	return r, nil
}
