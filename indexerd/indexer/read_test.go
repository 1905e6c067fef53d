package indexer

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// generous grants three purposes, under a policy that allows two of them more than
// by default.
func generous(d *grants.Draft) {
	d.Lifetime = 20 * 24 * time.Hour
	d.Purposes = grants.Purposes{grants.AISummarise, grants.SearchIndex, grants.SearchSnippet}
	d.Constraints.Attribution, d.Constraints.RetentionDays = "Example Ltd", 9
	copies, features := uint64(14), uint64(5)
	d.Terms.Retention = &grants.RetentionTerms{CachedCopyDays: &copies, FeatureDays: &features}
	d.Terms.Redistribution, d.Terms.TermsURL = grants.Allowed, "https://example.com/terms"
	d.Terms.Attribution = &grants.Attribution{LinkBack: true}
}

func TestAReadIsForOnePurposeAndComesWithItsTerms(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, generous)
	c := p.session(s)
	c.push(s, puts("words", urls(site, 3)...)...)
	url, taken := urls(site, 2)[1], r.now()
	page, err := r.x.Read(p.local.Name(), s.name, url, grants.SearchSnippet)
	if err != nil {
		t.Fatal(err)
	}
	if string(page.Payload) != string(payloadOf(url, "words at "+url)) {
		t.Errorf("the payload is %q", page.Payload)
	}
	at := func(days int) envelope.Time { return envelope.At(taken.Add(time.Duration(days) * 24 * time.Hour)) }
	want := Terms{
		Purposes: s.pair.Grant.Body.Purposes, Attribution: Attribution{LinkBack: true, Text: "Example Ltd"},
		Derivatives:    grants.Derivatives{Embeddings: grants.Denied, Other: grants.Denied, Snippets: grants.Allowed, Summary: grants.Allowed},
		Redistribution: grants.Allowed, TermsURL: "https://example.com/terms",
		CopyUntil: at(9), FeaturesUntil: at(5), ExpiresAt: envelope.At(s.pair.Grant.Object.ExpiresAt),
	}
	got := page.Terms
	if !slices.Equal(got.Purposes, want.Purposes) {
		t.Errorf("for %v, want %v", got.Purposes, want.Purposes)
	}
	if got.Purposes, want.Purposes = nil, nil; got.Attribution != want.Attribution || got.Derivatives != want.Derivatives ||
		got.Redistribution != want.Redistribution || got.TermsURL != want.TermsURL ||
		!got.CopyUntil.Equal(want.CopyUntil.Time) || !got.FeaturesUntil.Equal(want.FeaturesUntil.Time) || !got.ExpiresAt.Equal(want.ExpiresAt.Time) {
		t.Errorf("under %+v, want %+v", got, want)
	}
	e := page.Entry
	raw := must[[]byte](t)(r.x.tlog.Released().Entry(e.Index))
	if o := must[*envelope.Object](t)(envelope.Parse(raw)); o.ID != e.ObjectID || e.Decision != translog.Include || e.LogOrigin != r.x.tlog.Origin() {
		t.Errorf("it comes from %+v", e)
	}
	leaves := must[[][32]byte](t)(r.x.tlog.Released().SetLeaves(e.Index))
	if leaves[e.Place] != s.key.Leaf(translog.OpPut, page.JournalEpoch, page.Revision, url, [32]byte(page.Digest)).Hash() {
		t.Errorf("leaf %d of the entry is not the page's", e.Place)
	}
	if page.Publisher != p.local.Name() || page.GrantID != s.pair.Grant.Object.ID || page.HeldUnder != page.GrantID || page.PolicyHash != s.pair.Policy.Object.ID {
		t.Errorf("it comes from %+v", page.Provenance)
	}
}

func TestAPurposeThatIsNotAllowedReadsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, generous)
	c := p.session(s)
	c.push(s, puts("words", urls(site, 1)...)...)
	c.close()
	read := func(purpose grants.Purpose) error {
		_, err := r.x.Read(p.local.Name(), s.name, urls(site, 1)[0], purpose)
		return err
	}
	for _, purpose := range []grants.Purpose{grants.AITrain, grants.RAGRetrieve, "x.example.com.other", ""} {
		if err := read(purpose); !errors.Is(err, grants.ErrPurpose) {
			t.Errorf("%q: %v", purpose, err)
		}
	}
	for _, purpose := range s.pair.Grant.Body.Purposes {
		if err := read(purpose); err != nil {
			t.Errorf("%s: %v", purpose, err)
		}
	}
	// A newer grant that allows less, and another thing, narrows every read at
	// once, and widens none before it has taken the pages over.
	s.pair = s.grant(2, func(d *grants.Draft) {
		generous(d)
		d.Purposes = grants.Purposes{grants.RAGRetrieve, grants.SearchIndex}
		d.Terms.Redistribution, d.Terms.Attribution = grants.Denied, &grants.Attribution{Required: true}
		d.Constraints.RetentionDays = 3
	})
	c = p.session(s)
	for _, purpose := range []grants.Purpose{grants.AISummarise, grants.SearchSnippet, grants.RAGRetrieve} {
		if err := read(purpose); !errors.Is(err, grants.ErrPurpose) {
			t.Errorf("between two grants, %s: %v", purpose, err)
		}
	}
	page, err := r.x.Read(p.local.Name(), s.name, urls(site, 1)[0], grants.SearchIndex)
	if err != nil {
		t.Fatal(err)
	}
	if g := page.Terms; !slices.Equal(g.Purposes, grants.Purposes{grants.SearchIndex}) || g.Redistribution != grants.Denied ||
		!g.Attribution.Required || !g.Attribution.LinkBack || !g.CopyUntil.Equal(r.now().Add(72*time.Hour)) {
		t.Errorf("between two grants: %+v", g)
	}
	c.rebind(s)
	if err := read(grants.RAGRetrieve); err != nil {
		t.Errorf("taken over: %v", err)
	}
	r.forward(20 * 24 * time.Hour)
	if err := read(grants.SearchIndex); !errors.Is(err, grants.ErrExpired) {
		t.Errorf("expired: %v", err)
	}
}

// TestWhereAPageComesFrom asks for one in each of its states.
func TestWhereAPageComesFrom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.example()
	s := p.series("docs-1", site, twoDays)
	c := p.session(s)
	all := urls(site, 3)
	c.push(s, change{url: all[0], text: "words"}, change{url: all[1], payload: []byte("no document")}, change{url: all[2], text: "others"})
	find := func(url string, purpose grants.Purpose) Found {
		t.Helper()
		got := must[[]Found](t)(r.x.Find(url, purpose))
		if len(got) != 1 {
			t.Fatalf("%s: found %+v", url, got)
		}
		return got[0]
	}
	if got := must[[]Found](t)(r.x.Find(site+"never", "")); len(got) != 0 {
		t.Errorf("a page that was never offered: %+v", got)
	}
	if f := find(all[0], grants.SearchIndex); f.Refused != "" || f.Publisher != p.local.Name() || f.Entry.Decision != translog.Include || f.Purge != nil {
		t.Errorf("held: %+v", f)
	}
	if f := find(all[0], grants.AITrain); f.Refused != grants.ErrPurpose {
		t.Errorf("for another purpose: %+v", f)
	}
	if f := find(all[1], ""); f.Refused != grants.ErrPayload || f.Entry.Decision != translog.Exclude {
		t.Errorf("excluded: %+v", f)
	}
	r.forward(48 * time.Hour)
	r.retained()
	f := find(all[0], "")
	if f.Refused != grants.ErrRetention || f.Purge == nil || f.Purge.Status != translog.Retention {
		t.Fatalf("purged: %+v", f)
	}
	leaves := must[[][32]byte](t)(r.x.tlog.Released().SetLeaves(f.Purge.Index))
	if leaves[f.Purge.Place] != s.key.Leaf(translog.OpTombstone, f.JournalEpoch, f.Revision, all[0], [32]byte{}).Hash() {
		t.Errorf("leaf %d of the purge is not the page's", f.Purge.Place)
	}
	p.revoke(p.revocation(s.pair.Grant.Revoke(grants.DispositionStop)))
	if f := find(all[0], ""); f.Refused != grants.ErrRevoked {
		t.Errorf("revoked: %+v", f)
	}
}
