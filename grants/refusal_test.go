package grants_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// TestRefusingChangesNothing lets one pair be refused for each reason that this
// package finds, and compares pair and input with what they were.
func TestRefusingChangesNothing(t *testing.T) {
	p := issue(t, nil)
	v := verifier(t)
	open := func(raw []byte, change func(*grants.Verifier)) error {
		before := bytes.Clone(raw)
		w := v
		change(&w)
		_, err := grants.OpenPair(raw, p.Policy.Object.Raw, w)
		if !bytes.Equal(raw, before) {
			t.Error("the octets that were shown have changed")
		}
		return err
	}
	body := func(change func(*grants.GrantBody)) []byte {
		return resign(t, p.Grant, func(_ *envelope.Header, b *grants.GrantBody) { change(b) })
	}
	raw, same := p.Grant.Object.Raw, func(*grants.Verifier) {}
	announced := func(change func(*grants.Session)) error {
		s := session()
		change(&s)
		refusals := grants.CheckAnnouncement(signAnnouncement(t, announce(t, p)), s, []grants.Pair{p})
		if len(refusals) != 1 {
			t.Fatalf("refusals %+v", refusals)
		}
		return refusals[0].Reason
	}
	for want, refuse := range map[grants.Reason]func() error{
		grants.ErrMalformed:   func() error { return open(raw[:len(raw)-1], same) },
		grants.ErrSignature:   func() error { return open(raw, func(v *grants.Verifier) { v.Keys = keyring{} }) },
		grants.ErrIssuer:      func() error { return open(raw, func(v *grants.Verifier) { v.Publisher = stranger }) },
		grants.ErrAudience:    func() error { return open(raw, func(v *grants.Verifier) { v.Indexer = other }) },
		grants.ErrExpired:     func() error { return p.Permits(grants.SearchIndex, p.ExpiresAt()) },
		grants.ErrNotYetValid: func() error { return p.Fresh(noon.Add(-time.Hour)) },
		grants.ErrLifetime:    func() error { return open(raw, func(v *grants.Verifier) { v.MaxLifetime = time.Second }) },
		grants.ErrScope:       func() error { return p.Check("https://example.com/", noon) },
		grants.ErrScopeType:   func() error { return open(body(func(b *grants.GrantBody) { b.Scope.Type = "everything" }), same) },
		grants.ErrPurpose:     func() error { return p.Permits(grants.Archive, noon) },
		grants.ErrPolicy: func() error {
			return open(body(func(b *grants.GrantBody) { b.Purposes = grants.CommonPurposes() }), same)
		},
		grants.ErrOrigin:  func() error { return p.Grant.Body.Scope.CheckOrigins([]string{"https://www.example.com"}) },
		grants.ErrBinding: func() error { return announced(func(s *grants.Session) { s.Nonce[0]++ }) },
	} {
		t.Run(string(want), func(t *testing.T) {
			intact := unchanged(t, p)
			wantReason(t, refuse(), want)
			intact()
			if _, err := grants.OpenPair(raw, p.Policy.Object.Raw, v); err != nil {
				t.Errorf("the pair itself is not accepted afterwards: %v", err)
			}
		})
	}
}
