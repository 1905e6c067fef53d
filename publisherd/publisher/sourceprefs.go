package publisher

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// What a source says about purposes narrows what a grant over it allows, and
// never widens it. It stands in sources/NAME.preferences.json, as the last scan
// that read it found it: a grant is not signed for a purpose that the source
// denies, and under one that was signed before nothing is offered until it is
// renewed without that purpose, or revoked
// (TestADeniedPurposeWithholdsTheGrant). So it is with an indexer that the source
// does not approve, and with a policy by which content is kept for longer than
// the source allows; a grant that is signed later keeps to that by itself
// (TestWhatASourceLimitsNarrowsTheGrant). What a single page denies stands in its
// row of the journal, and withholds the page alone, from each grant of that
// purpose: TestAPageThatDeniesAPurposeIsWithdrawn.

// A preference is one statement as the file holds it.
type preference struct {
	Purpose string `json:"purpose"`
	Allowed bool   `json:"allowed"`
	Origin  string `json:"origin"`
}

// statedFile is what the file holds.
type statedFile struct {
	Purposes  []preference       `json:"purposes"`
	Keeping   *content.Keeping   `json:"keeping,omitempty"`
	Approvals []content.Approval `json:"approvals,omitempty"`
}

func preferencesFile(dir, name string) string {
	return filepath.Join(dir, "sources", name+".preferences.json")
}

// keepPreferences makes what a source states durable; nothing, if it states
// nothing.
func keepPreferences(dir, name string, p content.Preferences) error {
	file := preferencesFile(dir, name)
	all := statedFile{Purposes: []preference{}, Approvals: p.Approvals()}
	for _, s := range p.Stated() {
		all.Purposes = append(all.Purposes, preference{s.Purpose, s.Answer == content.Yes, s.Origin})
	}
	if k, limited := p.Keeping(); limited {
		all.Keeping = &k
	}
	if len(p.Lines()) == 0 {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if old, err := os.ReadFile(file); err == nil && string(old) == string(b) {
		return nil
	}
	return durable.WriteFile(file, b, 0o644)
}

// readPreferences returns what a source was found to state.
func readPreferences(dir, name string) (p content.Preferences, err error) {
	b, err := os.ReadFile(preferencesFile(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	var all statedFile
	if err := json.Unmarshal(b, &all); err != nil {
		return p, fmt.Errorf("%s: %w", preferencesFile(dir, name), err)
	}
	if all.Keeping != nil {
		p.KeepAtMost(*all.Keeping)
	}
	for _, a := range all.Approvals {
		p.ApproveOnly(a)
	}
	for _, s := range all.Purposes {
		a := content.No
		if s.Allowed {
			a = content.Yes
		}
		p.State(s.Purpose, a, s.Origin)
	}
	return p, nil
}

// deniedBy lists the purposes that a page denies.
func deniedBy(p content.Page) []string {
	var purposes []string
	for _, d := range p.Preferences.Denied() {
		purposes = append(purposes, d.Purpose)
	}
	return purposes
}

// denies reports whether the page denies one of the purposes.
func (p *pageRow) denies(purposes grants.Purposes) bool {
	var denied grants.Purposes
	for _, d := range p.Denied {
		denied = append(denied, grants.Purpose(d))
	}
	return slices.ContainsFunc(purposes, denied.Deny)
}

// withheld returns a *Refused if the source denies one of the purposes, or does
// not approve the indexer.
func withheld(stated content.Preferences, collection string, indexer envelope.Name, purposes grants.Purposes) error {
	for _, d := range stated.Denied() {
		denied, err := grants.ParsePurposes([]string{d.Purpose})
		if err != nil {
			return err
		}
		for _, granted := range purposes {
			if denied.Deny(granted) {
				return &Refused{Reason: grants.ErrPurpose, Detail: fmt.Sprintf(
					"collection %s denies %s, by %s; grant it without that purpose", collection, granted, d.Origin)}
			}
		}
	}
	return approved(stated, indexer)
}

// approved returns a *Refused if an indexer is not among those that the content
// is for. It has to be named as it is in the grant: by its SPIFFE ID.
func approved(stated content.Preferences, indexer envelope.Name) error {
	if a, ok := stated.Approves(string(indexer)); !ok {
		return &Refused{Reason: grants.ErrPolicy, Detail: fmt.Sprintf("%s is not among the %s", indexer, a.Origin)}
	}
	return nil
}

// withheld returns a *Refused if the source does not allow what the pair in force
// does.
func (r *Relationship) withheld(dir string) error {
	stated, err := readPreferences(dir, r.Collection)
	if err != nil {
		return err
	}
	if err := withheld(stated, r.Collection, r.Indexer, r.Pair.Grant.Body.Purposes); err != nil {
		return err
	}
	kept := r.Pair.Retention()
	if k, limited := stated.Keeping(); limited && max(kept.CachedCopyDays, kept.FeatureDays) > k.Days {
		return &Refused{Reason: grants.ErrPolicy, Detail: fmt.Sprintf(
			"collection %s may be kept for %d days, by %s, and the policy says longer; renew the grant", r.Collection, k.Days, k.Origin)}
	}
	return nil
}
