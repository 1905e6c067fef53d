package peer

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

const (
	origin  = "bench.example/log"
	indexer = envelope.Name("spiffe://bench.example/indexer")
	subject = envelope.Name("urn:uzpif-oi:rel:bench")
)

// Ours is our log as a program opens it: with the defaults of translog and of
// the store, and a signed checkpoint for each commit.
type Ours struct {
	*translog.Log
	Store *durable.Store
}

// key is a key for measurements. Its seed is known to everybody.
func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), seed))
}

// OpenOurs opens the log in dir, or begins it there.
func OpenOurs(dir string) (*Ours, error) {
	quiet := slog.New(slog.DiscardHandler)
	signer, err := envelope.NewSigner(key(1))
	if err != nil {
		return nil, err
	}
	s, err := durable.Open(filepath.Join(dir, "store"), durable.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	l, err := translog.Open(translog.Config{
		Store: s, Dir: filepath.Join(dir, "mark"), Origin: origin, Indexer: indexer, Authority: indexer.Authority(),
		Signer: signer, NoteKey: key(2), Logger: quiet,
	})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &Ours{l, s}, nil
}

// Close closes log and store.
func (o *Ours) Close() error { return errors.Join(o.Log.Close(), o.Store.Close()) }

// Add commits an opaque entry.
func (o *Ours) Add(ctx context.Context, entry []byte) error {
	return o.Commit(ctx, &Opaque{Entry: entry})
}

// Opaque proposes one entry of any octets, and keeps what became of it.
type Opaque struct {
	Entry []byte
	Index uint64
	Tree  translog.Tree
	Note  []byte
}

// Prepare is that of translog.Proposal.
func (p *Opaque) Prepare(tx *translog.Tx) error {
	p.Index = tx.NextIndex()
	return tx.AppendOpaque(p.Entry)
}

// Finish is that of translog.Proposal.
func (p *Opaque) Finish(_ *translog.Tx, c *translog.Committed) error {
	p.Tree, p.Note = c.Tree, c.Note
	return nil
}

// AddSigned commits a decision over a set of a thousand pages, which the log
// signs. The 32 octets are the set's root.
func (o *Ours) AddSigned(ctx context.Context, root []byte) error {
	return o.Commit(ctx, decision(root))
}

// SignedSize is about how many octets are signed for an entry of AddSigned: its own
// without the signature, and what a signature says beside them.
const SignedSize = 1320

// A decision proposes a signed entry; the hash makes it differ from others.
type decision envelope.Hash

func (d decision) Prepare(tx *translog.Tx) error {
	h := envelope.Hash(d)
	return tx.Append(subject, translog.Entry{
		BatchID: h, CollectionRef: h, Decision: translog.Include, From: 1, Through: 1001,
		GrantExpiresAt: envelope.At(tx.Now().Add(24 * time.Hour)), GrantID: h, JournalEpoch: 1,
		Objects: translog.Set{Count: 1000, Root: h}, PolicyHash: h, Purposes: []string{"search.index"},
		ScopeHash: h, State: h, Status: translog.Accepted,
	}, nil)
}

func (d decision) Finish(*translog.Tx, *translog.Committed) error { return nil }
