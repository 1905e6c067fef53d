package translog

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// What a body is drawn from. Values that make no body are drawn as well, and
// seldom enough.
var (
	drawHash = rapid.OneOf(rapid.Just(envelope.Hash{}), rapid.Custom(func(t *rapid.T) envelope.Hash {
		return testHash(rapid.Uint8().Draw(t, "hash"))
	}))
	drawNumber = rapid.OneOf(rapid.Uint64Max(3), rapid.Uint64Max(envelope.MaxInteger), rapid.SampledFrom([]uint64{
		0, 1, 1 << 32, envelope.MaxInteger - 1, envelope.MaxInteger, envelope.MaxInteger + 1,
	}))
	drawText = rapid.OneOf(rapid.SampledFrom([]string{"", "search.index", "\u2028\"\\\x00", "\xff"}), rapid.StringN(0, 20, 80))
)

// TestEveryEntryThatIsSignedIsReadBack: a body that Append lets pass and that
// can be signed is decoded to what it was.
func TestEveryEntryThatIsSignedIsReadBack(t *testing.T) {
	signer, err := envelope.NewSigner(testKey(1))
	if err != nil {
		t.Fatal(err)
	}
	signed := 0
	rapid.Check(t, func(t *rapid.T) {
		hash, number, text := drawHash, drawNumber, drawText
		what := rapid.SampledFrom([]struct {
			Decision
			Status
		}{
			{Include, Accepted}, {Update, Accepted}, {DeleteAck, Removed}, {Exclude, Refused}, {Update, Reconciled}, {Update, Rebound},
			{Exclude, GrantExpired}, {Exclude, OutOfScope}, {DeleteAck, Retention}, {RevokeAck, Stopped}, {DeleteAck, Revoked},
		}).Draw(t, "what")
		e := Entry{
			CheckpointRef: hash.Draw(t, "checkpoint_ref"), CollectionRef: hash.Draw(t, "collection_ref"),
			Decision: what.Decision, Status: what.Status, From: number.Draw(t, "from"), JournalEpoch: number.Draw(t, "journal_epoch"),
			GrantExpiresAt: envelope.At(time.Unix(rapid.Int64Range(-1<<37, 1<<38).Draw(t, "grant_expires_at"), 0)),
			GrantID:        hash.Draw(t, "grant_id"), Indexer: testIndexer, LogOrigin: text.Draw(t, "log_origin"),
			Objects:    Set{number.Draw(t, "count"), hash.Draw(t, "root")},
			PolicyHash: hash.Draw(t, "policy_hash"), Profile: Profile, Purposes: rapid.SliceOfN(text, 0, 3).Draw(t, "purposes"),
			ScopeHash: hash.Draw(t, "scope_hash"), State: hash.Draw(t, "state"),
		}
		e.Through = e.From
		if batch, _ := what.Status.Allowed(what.Decision); batch {
			e.BatchID, e.Through = testHash("batch"), e.From+number.Draw(t, "more")
		}
		if what.Status == Stopped || what.Status == Revoked {
			e.RevocationID = testHash("revocation")
		}
		if e.Validate() != nil {
			return
		}
		body, err := e.encode(new(envelope.Encoder))
		if want, refusal := envelope.Canonical(&e); (err == nil) != (refusal == nil) || err == nil && !bytes.Equal(body, want) {
			t.Fatalf("%+v\n is written as %s, %v\nand by the library as %s, %v", e, body, err, want, refusal)
		}
		if err != nil {
			return
		}
		o, err := envelope.SignBody(envelope.Header{
			Type: envelope.Entry, Authority: testIndexer.Authority(), Subject: testSubject, IssuedAt: newTime(noon),
		}, body, testIndexer, signer)
		if err != nil {
			return
		}
		signed++
		var again Entry
		if err := o.DecodeBody(&again); err != nil || !reflect.DeepEqual(e, again) {
			t.Fatalf("%+v\n is read back as %+v, %v", e, again, err)
		}
	})
	if signed < 10 {
		t.Errorf("only %d entries were signed", signed)
	}
}

// TestEveryCheckpointThatIsSignedIsReadBack: likewise for what signCheckpoint signs.
func TestEveryCheckpointThatIsSignedIsReadBack(t *testing.T) {
	signer, err := envelope.NewSigner(testKey(1))
	if err != nil {
		t.Fatal(err)
	}
	signed := 0
	rapid.Check(t, func(t *rapid.T) {
		c := Checkpoint{
			Algorithm: RootAlgorithm, Indexer: testIndexer, LogOrigin: drawText.Draw(t, "log_origin"), PreviousHash: drawHash.Draw(t, "previous_hash"),
			Profile: Profile, Root: drawHash.Draw(t, "root"), TreeSize: drawNumber.Draw(t, "tree_size"),
		}
		if rapid.Bool().Draw(t, "continues") {
			c.Continues = &Continues{drawText.Draw(t, "origin"), drawHash.Draw(t, "its root"), drawNumber.Draw(t, "its size")}
		}
		if c.Validate() != nil {
			return
		}
		body, err := c.encode()
		if want, refusal := envelope.Canonical(&c); (err == nil) != (refusal == nil) || err == nil && !bytes.Equal(body, want) {
			t.Fatalf("%+v\n is written as %s, %v\nand by the library as %s, %v", c, body, err, want, refusal)
		}
		if err != nil {
			return
		}
		o, err := envelope.SignBody(envelope.Header{
			Type: envelope.Checkpoint, Authority: testIndexer.Authority(), Subject: testIndexer, Sequence: 1, IssuedAt: newTime(noon),
		}, body, testIndexer, signer)
		if err != nil {
			return
		}
		signed++
		var again Checkpoint
		if err := o.DecodeBody(&again); err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%+v\n is read back as %+v, %v", c, again, err)
		}
	})
	if signed < 10 {
		t.Errorf("only %d checkpoints were signed", signed)
	}
}
