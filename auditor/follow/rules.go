package follow

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// maxRules bounds the file of a judge, in octets: about a million grants.
const maxRules = 1 << 30

// maxRuleAlerts is how many alerts of broken rules are kept for one log; more are
// told in the events, and auditor lint lists them all.
const maxRuleAlerts = 16

// A judge holds what the entries say, one after another, against the rules of
// their profile. Its file is written before the state of the log is, so that it is
// never behind: after a crash entries come again that it has judged, and passes
// over.
type judge struct {
	Next    uint64         `json:"next"` // the entry that is judged next
	Checker jsontext.Value `json:"checker"`

	checker *lint.Checker
	saved   uint64 // Next as it is on the disk
}

// rulesSuffix ends the name of a judge's file, which lies beside the state of its
// log and holds no note.
const rulesSuffix = ".rules"

func rulesPath(dir, origin string) string {
	return strings.TrimSuffix(statePath(dir, origin), ".state") + rulesSuffix
}

// readJudge goes on from the file, or begins at the entry at which the log is
// followed from now on: what stood before it is not known then, and not judged.
func readJudge(dir, origin string, verified uint64) (*judge, error) {
	path := rulesPath(dir, origin)
	raw, err := readFile(path, maxRules)
	if errors.Is(err, fs.ErrNotExist) {
		return &judge{Next: verified, checker: lint.NewChecker(verified > 0)}, nil
	}
	if err != nil {
		return nil, err
	}
	j := new(judge)
	line, rest, _ := bytes.Cut(raw, []byte("\n"))
	if string(rest) != sum(line).String()+"\n" {
		return nil, fmt.Errorf("%s: %w: it was changed or cut off. Remove it: what entries before now said is not judged then", path, ErrState)
	}
	if err := json.Unmarshal(line, j, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrState, err)
	}
	if j.checker, err = lint.ParseChecker(j.Checker); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrState, err)
	}
	if j.Next < verified {
		return nil, fmt.Errorf("%s: %w: it is of an earlier time than the state of the log. Remove it: what entries before now said is not judged then", path, ErrState)
	}
	j.saved = j.Next
	return j, nil
}

// save writes the file if entries were judged since.
func (j *judge) save(d disk, dir, origin string) (err error) {
	if j.Next == j.saved {
		return nil
	}
	if j.Checker, err = j.checker.Encode(); err != nil {
		return err
	}
	line, err := json.Marshal(j, json.Deterministic(true))
	if err == nil {
		err = d.Write(rulesPath(dir, origin), fmt.Appendf(line, "\n%s\n", sum(line)))
	}
	if err == nil {
		j.saved = j.Next
	}
	return err
}

// judgeEntry raises an alert for each rule that an entry breaks. The log is
// followed on: it is one log, and says what cannot be true.
func (f *follower) judgeEntry(raw []byte, o *envelope.Object, e *translog.Entry) error {
	if f.judge == nil || o.Sequence < f.judge.Next {
		return nil
	}
	if f.judge.Next == 0 && f.state.Continues != nil {
		// What stands in the log before is not known here; the checkpoint, which
		// is judged before the entries, says that there is one.
		f.judge.checker.Continues = true
	}
	f.judge.Next, f.judge.checker.Signed = o.Sequence+1, f.state.Signed
	for _, v := range f.judge.checker.Judge(o, e, f.o.Now()) {
		standing, err := readAlerts(f.o.Dir, f.vkey)
		if err != nil {
			return err
		}
		kept := 0
		for _, a := range standing {
			if a.Kind == BrokenRule {
				kept++
			}
		}
		if kept >= maxRuleAlerts {
			f.words.Error("rule broken, and not kept as an alert", "index", v.Index, "rule", v.Rule, "detail", clean(v.Detail))
			continue
		}
		a := f.alert(BrokenRule, v.Index, "entry %d breaks the rule %s: %s", v.Index, v.Rule, v.Detail)
		a.files["entry.json"], a.files["rule"] = raw, []byte(string(v.Rule)+"\n")
		if err := f.raise(a); err != nil {
			return err
		}
	}
	return nil
}

// refreshCard reads the indexer's card again. One that names another log is of a
// rotation, which is for the operator to judge.
func (f *follower) refreshCard() error {
	if f.log.Reload == nil {
		return nil
	}
	card, err := f.log.Reload()
	switch {
	case err != nil:
		return fmt.Errorf("the indexer's card: %w", err)
	case card.Object.ID == f.log.Card.Object.ID:
		return nil
	case card.Identity != f.log.Card.Identity || card.Log == nil || card.Log.Origin != f.origin() || card.Log.VKey != f.vkey:
		return fmt.Errorf("%w: the card names another indexer or another log than %s now; follow that one too, and this one no longer", ErrState, f.origin())
	}
	f.words.Info("card", "fingerprint", card.Fingerprint())
	f.log.Card = card
	return nil
}
