package follow

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// A Kind says what an alert is about.
type Kind string

// The kinds of alerts.
const (
	Fork         Kind = "fork"         // two roots for one size
	Rollback     Kind = "rollback"     // fewer entries than before
	Inconsistent Kind = "inconsistent" // no proof that the log only grew
	SplitView    Kind = "split-view"   // others were shown another log
	Withheld     Kind = "withheld"     // the entries served are not those that were signed for
	BadEntry     Kind = "entry"        // an entry under the root that must not be there
	Discontinued Kind = "continuation" // a new log that does not continue the old one
	Stale        Kind = "stale"        // nothing new that verifies for too long
	Unwitnessed  Kind = "witness"      // no quorum of witnesses for too long
	BrokenRule   Kind = "rule"         // an entry says what cannot be true
)

// Kinds are all kinds of alerts.
func Kinds() []Kind {
	return []Kind{Fork, Rollback, Inconsistent, SplitView, Withheld, BadEntry, Discontinued, Stale, Unwitnessed, BrokenRule}
}

// halts reports whether a log is followed no further while such an alert stands:
// the log contradicts itself, and only a person can tell what holds. A log that
// is late may come back, and one whose entries break a rule is one log all the same.
func (k Kind) halts() bool { return k != Stale && k != Unwitnessed && k != BrokenRule }

// meaning is the first sentence of an alert's README.
func (k Kind) meaning() string {
	return map[Kind]string{
		Fork:         "The log signed two different trees of one size. Both signed notes are here: they cannot both be of one log that only grows.",
		Rollback:     "The log shows a smaller tree than it did before. Entries that it has signed for are gone from what it shows now.",
		Inconsistent: "The log did not prove that the tree in new.note goes on from the one in old.note. Unless somebody on the way changed the proof, entries were changed or removed.",
		SplitView:    "The log showed another tree to somebody else than it shows here. old.note is what the other one was shown, new.note is what is shown here.",
		Withheld:     "The log signed the tree in new.note, and does not serve the entries or tiles that this tree is made of. Unless somebody on the way changed them, it keeps back or changes entries.",
		BadEntry:     "An entry that is under the root in new.note is not what an entry of this log must be. It is in entry.json, as the log serves it; proof.json, if it is here, proves that it is in the tree. If the indexer has a new key for what it signs, get its new card.",
		Discontinued: "The log says that it continues another one, and what it says of that one's end contradicts what that log showed.",
		Stale:        "For longer than is allowed the log has shown no new checkpoint that verifies. Either it is down, or it is frozen for you and goes on for others.",
		Unwitnessed:  "For longer than is allowed the log's checkpoint has not been cosigned by enough of the witnesses that you name.",
		BrokenRule:   "An entry that is under the root in new.note says what cannot be true by the entries before it. It is in entry.json, as the log serves it, signed by the indexer; auditor lint finds the same.",
	}[k]
}

// Bounds of the alerts.
const (
	maxAlerts = 64       // that stand for one log; what is more is told and not kept
	maxAll    = 20_000   // that stand for all logs together
	maxAlert  = 64 << 10 // octets of an alert.json
)

// An Alert is what a log has done. Until it is kept, it is an error.
type Alert struct {
	At     envelope.Time `json:"at"`
	Detail string        `json:"detail"`
	ID     envelope.Hash `json:"id"` // the same for the same thing found again
	Index  uint64        `json:"index"`
	Kind   Kind          `json:"kind"`
	Origin string        `json:"origin"`
	URL    string        `json:"url"`
	VKey   string        `json:"vkey"`

	// Folder is its name below DIR/alerts, once it is kept.
	Folder string `json:"-"`

	files map[string][]byte // old.note, new.note and what else shows it
	// proven: two signatures say it. Otherwise it may be an answer that was
	// changed or cached on its way, and is asked for again first.
	proven bool
}

func (a *Alert) Error() string { return fmt.Sprintf("%s: %s", a.Kind, a.Detail) }

// identify makes the ID: kind, log, and the trees or entry that it is about. An
// alert of a kind that does not halt is the same for as long as it stands.
func (a *Alert) identify() {
	parts := [][]byte{[]byte(a.Kind), {0}, []byte(a.VKey), {0}}
	if a.Kind.halts() || a.Kind == BrokenRule {
		for _, name := range slices.Sorted(maps.Keys(a.files)) {
			if name == "proof.json" {
				continue // made anew each time
			}
			if a.Kind == BrokenRule && strings.HasSuffix(name, ".note") {
				continue // the entry and the rule are what it is about
			}
			text, _, _ := strings.Cut(string(a.files[name]), "\n\n") // cosignatures may come later
			h := envelope.TaggedHash("uzpif-oi/follow/v1", []byte(text))
			parts = append(parts, []byte(name), h[:])
		}
	}
	a.ID = envelope.TaggedHash("uzpif-oi/follow-alert/v1", parts...)
}

// keep writes the alert into a folder of its own, which has its name only once
// everything in it is durable.
func (a *Alert) keep(d disk, dir string) error {
	all := filepath.Join(dir, "alerts")
	if err := errors.Join(os.MkdirAll(all, 0o700), durable.SyncDir(dir)); err != nil {
		return err
	}
	a.Folder = fmt.Sprintf("%s-%s-%s", a.At.UTC().Format("20060102T150405Z"), a.Kind, hex.EncodeToString(a.ID[:4]))
	unnamed := filepath.Join(all, "."+a.Folder)
	body, err := json.Marshal(a, json.Deterministic(true))
	if err != nil {
		return err
	}
	files := maps.Clone(a.files)
	if files == nil {
		files = make(map[string][]byte)
	}
	files["alert.json"] = append(body, '\n')
	files["README"] = []byte(a.words())
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err == nil {
			err = d.Write(filepath.Join(unnamed, name), files[name])
		}
	}
	if err == nil {
		err = d.Rename(unnamed, filepath.Join(all, a.Folder))
	}
	if err != nil {
		err = errors.Join(err, d.RemoveAll(unnamed)) // a full disk is not filled further
	}
	return err
}

// words are the README.
func (a *Alert) words() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", a.Kind.meaning())
	fmt.Fprintf(&b, "log:    %s at %s\nfound:  %s\ndetail: %s\n\n", a.Origin, a.URL, a.At, a.Detail)
	fmt.Fprintf(&b, "The notes are as the log signed them. Anybody can verify them by the log's key:\n\n  %s\n\n", a.VKey)
	if a.Kind.halts() {
		b.WriteString("The log is followed no further while this folder is here. Keep a copy, ask the\noperator of the log, and remove the folder when you have judged the matter.\n")
	} else {
		b.WriteString("The log is followed on. Remove the folder when you have seen to the matter.\n")
	}
	return b.String()
}

// tidy removes what a process that was killed left without a name.
func tidy(d disk, dir string) error {
	entries, err := os.ReadDir(filepath.Join(dir, "alerts"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if err == nil && strings.HasPrefix(e.Name(), ".") {
			err = d.RemoveAll(filepath.Join(dir, "alerts", e.Name()))
		}
	}
	return err
}

// readAlerts lists the alerts that stand for the log with that verifier key, the
// oldest first. One that cannot be read is an error: it might be of this log.
func readAlerts(dir, vkey string) ([]*Alert, error) {
	folder := filepath.Join(dir, "alerts")
	f, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(names) > maxAll {
		return nil, fmt.Errorf("%s holds %d alerts, at most %d are looked at; move old ones away", folder, len(names), maxAll)
	}
	var all []*Alert
	for _, name := range names {
		if strings.HasPrefix(name, ".") {
			continue
		}
		raw, err := readFile(filepath.Join(folder, name, "alert.json"), maxAlert)
		a := &Alert{Folder: name}
		if err == nil {
			err = json.Unmarshal(raw, a, json.RejectUnknownMembers(true))
		}
		if err != nil {
			return nil, fmt.Errorf("alert %s cannot be read; remove the folder when you have judged it: %w", name, err)
		}
		if a.VKey == vkey {
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b *Alert) int {
		return cmp.Or(a.At.Compare(b.At.Time), cmp.Compare(a.Folder, b.Folder))
	})
	return all, nil
}
