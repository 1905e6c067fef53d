package e2e

import (
	"bytes"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content/state"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// rootOfRow is the state root over one page.
func rootOfRow(r *oiv1.StateRow) []byte {
	root, _, err := state.Of(func(yield func(state.Item, error) bool) {
		yield(state.Item{URLHash: [32]byte(r.Hash), Digest: [32]byte(r.Digest), Format: uint8(r.Format)}, nil)
	})
	if err != nil {
		return nil
	}
	return root[:]
}

// everywhere changes the terms in entries and receipt alike.
func everywhere(entry func(*translog.Entry), receipt func(*translog.Receipt)) func(*forgery) {
	return func(f *forgery) {
		for i := range f.entries {
			entry(&f.entries[i].body)
		}
		receipt(&f.receipt.body)
	}
}

func onEntry(change func(*translog.Entry)) func(*forgery) {
	return func(f *forgery) { change(&f.entries[0].body) }
}

func onReceipt(change func(*translog.Receipt)) func(*forgery) {
	return func(f *forgery) { f.receipted = change }
}

// answerLies are about a batch: what was signed is not what was offered. A real
// indexer has committed it, so that the truth comes out at the next push.
var answerLies = []lie{
	{"a receipt by an unknown key", forged(func(f *forgery) { f.signer = stranger(f.l) }), failed, "signature check: signature", "signature"},
	{"a receipt whose signature is spoilt", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) {
		r.Committed.Receipt = spoil(r.Committed.Receipt)
	}), failed, "signature check: signature", "signature"},
	{"a receipt that is no object", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Committed.Receipt = []byte("{}") }), failed, "signature check: ", "signature"},
	{"a receipt for another batch", forged(everywhere(
		func(e *translog.Entry) { e.BatchID[0] ^= 1 }, func(r *translog.Receipt) { r.BatchID[0] ^= 1 })), failed, "batch", "batch"},
	{"the receipt of the batch before", answered(func(l *lyingIndexer, r *oiv1.BatchResult) {
		r.Committed = proto.Clone(l.last.Committed).(*oiv1.Committed)
	}), failed, "match", "batch"},
	{"another publisher's receipt", forged(func(f *forgery) {
		f.receipt.head.Audience, f.receipt.body.Publisher = "spiffe://victim.test/publisher", "spiffe://victim.test/publisher"
	}), failed, "parties", "parties"},
	{"a receipt about somebody else", forged(func(f *forgery) { f.receipt.head.Subject = "spiffe://victim.test/publisher" }), failed, "parties", "parties"},
	{"an entry about somebody else", forged(func(f *forgery) { f.entries[0].head.Subject = "spiffe://victim.test/publisher" }), failed, "parties", "parties"},
	{"a receipt that is backdated", forged(func(f *forgery) { f.later(-3 * time.Minute) }), failed, "issued_at", "time"},
	{"a receipt of tomorrow", forged(func(f *forgery) { f.later(24 * time.Hour) }), failed, "time|issued_at", "time"},
	{"an entry over another root", forged(onEntry(func(e *translog.Entry) { e.Objects.Root[0] ^= 1 })), failed, "sets", "sets"},
	{"an entry over more pages", forged(onEntry(func(e *translog.Entry) { e.Objects.Count++ })), failed, "sets", "sets"},
	{"an entry that includes a page that was not offered", forged(onEntry(func(e *translog.Entry) {
		e.Objects = translog.SetOf([][32]byte{{1}, {2}})
	})), failed, "sets", "sets"},
	{"an entry too many", forged(func(f *forgery) { f.entries = append(f.entries, f.entries[0]) }), failed, "sets|entries", "sets"},
	{"a receipt that lists other entries", forged(onReceipt(func(r *translog.Receipt) { r.Entries[0].Root[0] ^= 1 })), failed, "entries", "entries"},
	{"five entries", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) {
		for range 4 {
			r.Committed.Entries = append(r.Committed.Entries, r.Committed.Entries[0])
		}
	}), failed, "5 entries", "form"},
	{"no entry", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Committed.Entries = nil }), failed, "0 entries", "form"},
	{"purposes that are wider", forged(everywhere(
		func(e *translog.Entry) { e.Purposes = append([]string{"ai.train"}, e.Purposes...) },
		func(r *translog.Receipt) { r.Purposes = append([]string{"ai.train"}, r.Purposes...) })), failed, "purposes", "purposes"},
	{"another grant", forged(everywhere(
		func(e *translog.Entry) { e.GrantID[0] ^= 1 }, func(r *translog.Receipt) { r.GrantID[0] ^= 1 })), failed, "grant", "grant"},
	{"a grant that ends later", forged(onEntry(func(e *translog.Entry) {
		e.GrantExpiresAt = envelope.At(e.GrantExpiresAt.Add(time.Hour))
	})), failed, "grant", "grant"},
	{"another policy", forged(everywhere(
		func(e *translog.Entry) { e.PolicyHash[0] ^= 1 }, func(r *translog.Receipt) { r.PolicyHash[0] ^= 1 })), failed, "policy", "policy"},
	{"another scope", forged(everywhere(
		func(e *translog.Entry) { e.ScopeHash[0] ^= 1 }, func(r *translog.Receipt) { r.ScopeHash[0] ^= 1 })), failed, "scope", "scope"},
	{"another collection", forged(everywhere(
		func(e *translog.Entry) { e.CollectionRef[0] ^= 1 }, func(r *translog.Receipt) { r.CollectionRef[0] ^= 1 })), failed, "batch", "batch"},
	{"more revisions than were offered", forged(func(f *forgery) {
		everywhere(func(e *translog.Entry) { e.Through++ }, func(r *translog.Receipt) { r.Through++ })(f)
	}), failed, "batch", "batch"},
	{"another state after the batch", forged(onEntry(func(e *translog.Entry) { e.State[0] ^= 1 })), failed, "state", "state"},
	{"a decision that is missing", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Committed.Decisions = nil }), failed, "0 decisions on 1 items", "protocol"},
	{"a decision that is none", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Committed.Decisions[0] = 99 }), failed, "decision 99", "protocol"},
	{"a decision that the entry denies", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) {
		r.Committed.Decisions[0] = byte(oiv1.Decision_DECISION_EXCLUDE)
	}), failed, "sets", "sets"},
	{"a deletion of what was put", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) {
		r.Committed.Decisions[0] = byte(oiv1.Decision_DECISION_DELETE)
	}), failed, "sets", "sets"},
	{"a reason for a page that it took", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) {
		r.Committed.Refusals = []*oiv1.ItemRefusal{{Item: 0, Reason: "oversize"}}
	}), failed, "was not excluded", "protocol"},
	{"a reason for a page that there is not", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) {
		r.Committed.Refusals = []*oiv1.ItemRefusal{{Item: 1 << 31, Reason: "oversize"}}
	}), failed, "was not excluded", "protocol"},
}

// proofLies are about the log, and about what an answer is.
var proofLies = []lie{
	{"an entry that is not in the tree", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) {
		r.Committed.Inclusion[0] = &oiv1.Path{Hashes: octets([][32]byte{{1}, {2}})}
	}), failed, "inclusion", "inclusion"},
	{"an inclusion proof of another size", forged(func(f *forgery) {
		f.packed = func(r *oiv1.BatchResult) {
			r.Committed.Inclusion[0].Hashes = append(r.Committed.Inclusion[0].Hashes, make([]byte, 32))
		}
	}), failed, "inclusion", "inclusion"},
	{"no inclusion proof", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Committed.Inclusion = nil }), failed, "0 inclusion proofs", "form"},
	{"no consistency proof", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Consistency = nil }), failed, "consistency", "consistency"},
	{"a consistency proof of another size", forged(func(f *forgery) { f.seen-- }), failed, "consistency", "consistency"},
	{"a fork beneath the receipt", forged(func(f *forgery) { f.before[0][0] ^= 1 }), failed, "consistency", "consistency"},
	{"a log that is rolled back beneath the receipt", forged(func(f *forgery) { f.before = f.before[:len(f.before)-1] }), failed, "consistency", "consistency"},
	{"a note of another tree than the checkpoint", forged(func(f *forgery) { f.noted = func(t *translog.Tree) { t.Root[0] ^= 1 } }), failed, "checkpoint", "checkpoint"},
	{"a checkpoint of another log", forged(func(f *forgery) { f.checkpoint.body.LogOrigin = "elsewhere.test/log" }), failed, "sequence|checkpoint", "sequence"},
	{"a checkpoint that the receipt does not name", forged(onReceipt(func(r *translog.Receipt) { r.Checkpoint.ObjectID[0] ^= 1 })), failed, "checkpoint", "checkpoint"},
	{"an answer to a batch that was never sent", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.BatchId = make([]byte, 32) }), failed, "something else than the batch", "protocol"},
	{"an answer for another series", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Series = "another" }), failed, "something else than the batch", "protocol"},
	{"an answer that refuses and commits", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Refused = &oiv1.Fault{Reason: "oversize"} }), failed, "something else than the batch", "protocol"},
	{"an answer that does neither", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Committed = nil }), failed, "something else than the batch", "protocol"},
	{"the answer twice", at(func(_ *lyingIndexer, f *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		return []*oiv1.IndexerFrame{{Frame: &oiv1.IndexerFrame_RangeAnswer{RangeAnswer: &oiv1.RangeAnswer{}}}, f, f}
	}, isAnswer), failed, "something else than the batch", "protocol"},
	{"an answer that is larger than any may be", answered(func(_ *lyingIndexer, r *oiv1.BatchResult) { r.Committed.Receipt = make([]byte, 5<<20) }), unavailable, "larger than max", ""},
	{"a fault that asks to be left alone for weeks", at(func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		return []*oiv1.IndexerFrame{{Frame: &oiv1.IndexerFrame_Fault{Fault: &oiv1.Fault{
			Reason: "exhausted", Detail: strings.Repeat("\x1b[2J", 100_000), RetryMs: 1<<32 - 1,
		}}}}
	}, isAnswer), temporary, `refused \(exhausted\)`, ""},
	{"a farewell that asks to come back in weeks", at(func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		return []*oiv1.IndexerFrame{{Frame: &oiv1.IndexerFrame_Drain{Drain: &oiv1.Drain{ComeBackMs: 1<<32 - 1}}}}
	}, isAnswer), temporary, "shutting down", ""},
}

// silences are answers that do not come. The times are short: see newLied.
var silences = []lie{
	{"nothing in place of a welcome", held(isWelcome), unavailable, "did not answer in time", ""},
	{"nothing in place of a state", held(isAnnounced), unavailable, "did not answer in time", ""},
	{"nothing in place of an answer", held(isAnswer), unavailable, "did not answer in time", ""},
	{"heartbeats in place of an answer", at(func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
		var all []*oiv1.IndexerFrame
		for range 1000 {
			all = append(all, &oiv1.IndexerFrame{Frame: &oiv1.IndexerFrame_Heartbeat{Heartbeat: &oiv1.Heartbeat{Time: 1}}})
		}
		return all
	}, isAnswer), unavailable, "did not answer in time", ""},
}

// held keeps a kind of frame back.
func held(kind func(*oiv1.IndexerFrame) bool) func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame {
	return at(func(*lyingIndexer, *oiv1.IndexerFrame) []*oiv1.IndexerFrame { return nil }, kind)
}

// spoil changes the first character of an object's signature.
func spoil(raw []byte) []byte {
	const member = `"sig":"`
	raw = bytes.Clone(raw)
	c := &raw[bytes.LastIndex(raw, []byte(member))+len(member)]
	if *c == 'A' {
		*c = 'B'
	} else {
		*c = 'A'
	}
	return raw
}
