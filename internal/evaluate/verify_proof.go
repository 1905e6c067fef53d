package evaluate

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// prove is step 3 of UZPIF-OI 9.1.4. A proof that the file itself brings and
// that does not hold makes the file invalid. What the file cannot show alone
// only keeps the verdict from rising; two notes of one size with two roots
// take it down to Signed, since then the log's own proofs mean nothing.
func (v *verification) prove(ctx context.Context) {
	if !v.one(check{Proof, RuleInclusion, "The entry is in the log, at its own place, under the indexer's checkpoint.", v.proveInclusion}) {
		v.rep.Verdict = Invalid
		return
	}
	vkey := check{Proof, RuleNote, "The card that was given names the key of this log.", v.findLog}
	if !v.one(vkey) {
		return
	}
	if !v.one(check{Proof, RuleConsistency, "The log itself signed a checkpoint that is the indexer's, or extends it.", v.proveNote}) {
		v.rep.Verdict = Invalid
		return
	}
	v.rep.Verdict, v.rep.Note, v.rep.VKey = Included, v.note, v.log.VKey
	v.compare(ctx)
}

func (v *verification) proveInclusion() (string, error) {
	in, c := &v.ev.Inclusion, &v.checkpoint.body
	if in.Index != v.entry.Sequence || in.Size != c.TreeSize {
		return "", fail(Proof, RuleInclusion, "the proof is for entry %d of %d, want %d of %d", in.Index, in.Size, v.entry.Sequence, c.TreeSize)
	}
	return fmt.Sprintf("entry %d of %d", in.Index, in.Size), proveEntry(v.entry.Object, translog.Path(in.Hashes), c)
}

func (v *verification) findLog() (string, error) {
	origin := v.entry.body.LogOrigin
	log, ok := v.indexerKeys.log(origin)
	if !ok {
		log, ok = v.replaced().log(origin)
	}
	if !ok {
		return "", missing("the card of %s does not name the log %q", v.indexer, origin)
	}
	v.log = log
	return log.Origin, nil
}

// replaced are the cards in the file that a card given has replaced: each is
// named, by its object_id, by the one after it. They are believed about the logs
// that the indexer kept before a rotation. Their keys are not used: a key that
// the card given does not list may be one that was given up for good reason.
func (v *verification) replaced() ring {
	var past ring
	for _, at := range v.indexerKeys {
		for range v.ev.Cards { // as long as a chain of them can be
			i := slices.IndexFunc(v.cards, func(c *identity.Card) bool { return c.Object.ID == at.Previous && c.Identity == at.Identity })
			if i < 0 {
				break
			}
			at = v.cards[i]
			past = append(past, at)
		}
	}
	return past
}

func (v *verification) proveNote() (string, error) {
	var err error
	if v.note, err = openNote([]byte(v.ev.Note), v.log.VKey, v.log.Origin); err != nil {
		return "", err
	}
	c, own := &v.ev.Consistency, treeOf(&v.checkpoint.body)
	if c.From != own.Size || c.To != v.note.Size || c.From > c.To {
		return "", fail(Proof, RuleConsistency, "the proof is from size %d to %d, want %d to %d", c.From, c.To, own.Size, v.note.Size)
	}
	_, err = proveGrowth(own, v.note, translog.Path(c.Hashes))
	return fmt.Sprintf("size %d under %s", v.note.Size, envelope.Hash(v.note.Root)), err
}

func treeOf(c *translog.Checkpoint) translog.Tree {
	return translog.Tree{Origin: c.LogOrigin, Size: c.TreeSize, Root: c.Root}
}

// compare sets the file's note against what witnesses cosigned, and against
// notes obtained independently. Either raises the verdict to Proven.
func (v *verification) compare(ctx context.Context) {
	const text = "The log's checkpoint agrees with one that was obtained independently."
	proven, forked := false, false
	if v.o.Witnesses != nil {
		proven = v.one(witnessed("The witnesses that were named have cosigned the log's checkpoint.", func() (string, error) {
			return v.cosigned([]byte(v.ev.Note))
		}))
		if v.disagreed() { // a false cosignature is in the file itself
			v.rep.Verdict = Invalid
			return
		}
	} else if len(v.o.Checkpoints) == 0 {
		v.one(check{Proof, RuleConsistency, text, func() (string, error) {
			return "", missing("no such checkpoint was given")
		}})
		return
	}
	for _, note := range v.o.Checkpoints {
		proven = v.one(check{Proof, RuleConsistency, text, func() (string, error) {
			other, err := openNote(note, v.log.VKey, v.log.Origin)
			if err != nil {
				return "", err
			}
			forked = forked || other.Size == v.note.Size && other.Root != v.note.Root
			return v.agree(ctx, other)
		}}) || proven
		if v.o.Witnesses != nil {
			v.one(witnessed("They have cosigned the checkpoint that was obtained independently, too.", func() (string, error) {
				return v.cosigned(note)
			}))
		}
	}
	switch {
	case forked:
		v.rep.Verdict = Signed
		v.remark("The log has forked: its key signed two different trees of size %d. Keep both notes; together they are proof of it.", v.note.Size)
	case proven && !v.disagreed():
		v.rep.Verdict = Proven
	}
}

func witnessed(text string, run func() (string, error)) check {
	return check{Proof, RuleWitness, text, run}
}

// cosigned checks that a note carries the cosignatures that the policy asks
// for. That it is the log's own was checked before. A line by a key of the
// policy that does not verify is a failure; too few of them are missing.
func (v *verification) cosigned(note []byte) (string, error) {
	p := v.o.Witnesses
	switch {
	case p.None():
		return "", missing("the policy asks for no witness")
	case !p.Covers(v.log.VKey):
		return "", missing("the policy is for other logs than %s", v.log.Origin)
	}
	all, err := p.Cosignatures(note, v.o.Now)
	if err != nil {
		return "", fail(Signatures, RuleWitness, "%w", err)
	}
	var names []string
	for _, c := range all {
		names = append(names, fmt.Sprintf("%s at %s", c.Key.Name(), envelope.At(c.At)))
	}
	found := "nobody of the policy"
	if len(names) > 0 {
		found = strings.Join(names, ", ")
	}
	if !p.Met(all) {
		return "", missing("cosigned by %s, which is not enough for the policy", found)
	}
	return "cosigned by " + found, nil
}

// disagreed reports whether some check failed; what is missing is no failure.
func (v *verification) disagreed() bool {
	for _, c := range v.rep.Checks {
		if c.Outcome == Failed {
			return true
		}
	}
	return false
}

// agree proves that the larger of the file's tree and other extends the smaller.
func (v *verification) agree(ctx context.Context, other translog.Tree) (string, error) {
	if other.Size == 0 {
		return "", missing("the checkpoint given is that of the empty log")
	}
	var path [][32]byte
	if from, to := min(v.note.Size, other.Size), max(v.note.Size, other.Size); from != to {
		if v.o.Prover == nil {
			return "", missing("their sizes, %d and %d, differ, and the log was not asked for the proof between them", v.note.Size, other.Size)
		}
		var err error
		if path, err = v.o.Prover.Consistency(ctx, from, to); err != nil {
			return "", missing("the log gave no proof between sizes %d and %d: %v", from, to, err)
		}
	}
	if _, err := proveGrowth(v.note, other, path); err != nil {
		return "", err
	}
	return fmt.Sprintf("size %d under %s", other.Size, envelope.Hash(other.Root)), nil
}
