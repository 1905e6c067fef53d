package equivocation

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// Verify evaluates a file by cards that were obtained independently of it. The
// verdict is signed, or invalid: that the two objects contradict each other is in
// themselves, and no log has a part in it.
func Verify(raw []byte, cards []*identity.Card) *evaluate.Report {
	rep := &evaluate.Report{Verdict: evaluate.Invalid, Reasons: []string{}, NotProven: []string{
		"Which of the two was meant, or that either is true: only that both were signed.",
		"Whose act it was: whoever had the key could do it, also a copy of the program that was restored beside the first.",
	}}
	check := func(step evaluate.Step, rule evaluate.Rule, text string, err error) bool {
		c := evaluate.Check{Step: step, Rule: rule, Text: text, Outcome: evaluate.Passed}
		if err != nil {
			c.Outcome, c.Detail = evaluate.Failed, err.Error()
			rep.Reasons = append(rep.Reasons, fmt.Sprintf("%s Not so: %s.", text, err))
		}
		rep.Checks = append(rep.Checks, c)
		return err == nil
	}
	p, err := Parse(raw)
	if !check(evaluate.Signatures, evaluate.RuleForm, "The file is complete, and holds two objects of one place.", err) {
		return rep
	}
	signer := p.place.Signer
	for i, o := range p.objects {
		text := fmt.Sprintf("Object %d, %s, is signed by %s.", i+1, o.ID, signer)
		if !check(evaluate.Signatures, evaluate.RuleSignature, text, signedBy(o, cards)) {
			return rep
		}
	}
	rep.Verdict = evaluate.Signed
	rep.Reasons = append(rep.Reasons, fmt.Sprintf("%s signed two different objects of type %s %s.", signer, p.place.Type, p.place.words()))
	for _, o := range p.objects {
		if k, lost := lostKey(o, cards); lost {
			rep.Reasons = append(rep.Reasons, fmt.Sprintf("Object %s is signed by the key %s, which %s has reported lost: whoever has it can make such signatures, and set their time back.", o.ID, k, signer))
		}
	}
	return rep
}

// words says where both objects are.
func (at Place) words() string {
	switch at.Type {
	case envelope.Entry:
		return fmt.Sprintf("for index %d of the log %s", at.Sequence, at.LogOrigin)
	case envelope.Checkpoint:
		return fmt.Sprintf("for a tree of %d entries of the log %s", at.Sequence, at.LogOrigin)
	}
	where := fmt.Sprintf("for epoch %d, sequence %d", at.Epoch, at.Sequence)
	if at.Series != "" {
		where += " of series " + at.Series
	}
	return where
}

// signedBy requires a signature that counts, by a card of the object's signer. A
// card may also be signed by what the trusted one says its successor is signed
// with.
func signedBy(o *envelope.Object, cards []*identity.Card) error {
	err := fmt.Errorf("no card of %s was given", o.Signer)
	for _, c := range cards {
		if c.Identity != o.Signer {
			continue
		}
		if err = authentic(o, c); err == nil {
			return nil
		}
		if o.Type == envelope.IdentityCard && authentic(o, c.Vouching()) == nil {
			return nil
		}
	}
	return err
}

func authentic(o *envelope.Object, keys envelope.KeySource) error {
	_, err := envelope.Authenticate(o.Raw, new(jsontext.Value), envelope.Expecting(o.Type, keys, o.IssuedAt))
	return err
}

// lostKey finds a signature of o by a key that a card reports as lost.
func lostKey(o *envelope.Object, cards []*identity.Card) (envelope.Hash, bool) {
	for _, s := range o.Signatures {
		lost := slices.ContainsFunc(cards, func(c *identity.Card) bool {
			r, ok := c.LookupKey(s.KeyID)
			return ok && r.Lost
		})
		if lost {
			return s.KeyID, true
		}
	}
	return envelope.Hash{}, false
}
