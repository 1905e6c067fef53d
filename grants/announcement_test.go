package grants_test

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// session is the stream that announce announces in.
func session() grants.Session {
	return grants.Session{
		Exporter: grants.Binding{1}, Nonce: grants.Binding{2}, Publisher: publisher, Indexer: indexer, Now: noon.Add(10 * time.Second),
	}
}

// announce presents pairs, and requests all that each grants.
func announce(t testing.TB, pairs ...grants.Pair) grants.AnnouncementBody {
	t.Helper()
	b := grants.AnnouncementBody{Exporter: grants.Binding{1}, Nonce: grants.Binding{2}, Publisher: publisher}
	for _, p := range pairs {
		b.Grants = append(b.Grants, p.Grant.Object.ID)
		b.Policies = append(b.Policies, p.Policy.Object.ID)
		g := p.Grant.Body
		b.Requests = append(b.Requests, grants.Request{
			Actions: []grants.Action{grants.Discover, grants.Refresh}, Purposes: g.Purposes, Scope: g.Scope, Series: g.Series,
		})
	}
	compare := func(a, b envelope.Hash) int { return bytes.Compare(a[:], b[:]) }
	slices.SortFunc(b.Grants, compare)
	slices.SortFunc(b.Policies, compare)
	b.Policies = slices.Compact(b.Policies)
	return b
}

func signAnnouncement(t testing.TB, b grants.AnnouncementBody) *grants.Announcement {
	t.Helper()
	a, err := grants.SignAnnouncement(b, grants.Stamp{Indexer: indexer, Epoch: 1, At: noon}, signerOf(t, publisher))
	if err != nil {
		t.Fatal(err)
	}
	opened, err := grants.OpenAnnouncement(a.Object.Raw, verifier(t))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

func reasons(refusals []grants.Refusal) []grants.Reason {
	var all []grants.Reason
	for _, r := range refusals {
		all = append(all, r.Reason)
	}
	return all
}

func TestAnnouncementIsGoodForOneStream(t *testing.T) {
	p := issue(t, nil)
	a := signAnnouncement(t, announce(t, p))
	for _, tt := range []struct {
		name   string
		change func(*grants.Session)
		want   []grants.Reason
	}{
		{"the stream that it was made for", func(*grants.Session) {}, nil},
		{"another TLS session", func(s *grants.Session) { s.Exporter[31]++ }, []grants.Reason{grants.ErrBinding}},
		{"another stream of the same connection", func(s *grants.Session) { s.Nonce[31]++ }, []grants.Reason{grants.ErrBinding}},
		{"a session without an exporter", func(s *grants.Session) { s.Exporter = grants.Binding{} }, []grants.Reason{grants.ErrBinding}},
		{"exporter and nonce changed over", func(s *grants.Session) { s.Exporter, s.Nonce = s.Nonce, s.Exporter }, []grants.Reason{grants.ErrBinding}},
		{"a session of another publisher", func(s *grants.Session) { s.Publisher = stranger }, []grants.Reason{grants.ErrIssuer}},
		{"a session with another indexer", func(s *grants.Session) { s.Indexer = other }, []grants.Reason{grants.ErrAudience}},
		{"the last second of its minute", func(s *grants.Session) { s.Now = noon.Add(59 * time.Second) }, nil},
		{"a minute later", func(s *grants.Session) { s.Now = noon.Add(time.Minute) }, []grants.Reason{grants.ErrExpired}},
		{"three minutes before", func(s *grants.Session) { s.Now = noon.Add(-3 * time.Minute) }, []grants.Reason{grants.ErrNotYetValid}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			intact := unchanged(t, p)
			s := session()
			tt.change(&s)
			if got := reasons(grants.CheckAnnouncement(a, s, []grants.Pair{p})); !slices.Equal(got, tt.want) {
				t.Errorf("refused for %q, want %q", got, tt.want)
			}
			intact()
		})
	}
}

func TestAnnouncementIsRefusedWhole(t *testing.T) {
	docs := issue(t, nil)
	blog := issue(t, func(d *grants.Draft) { d.Series, d.Scope = "blog-1", prefixes(t, "https://example.com/blog/") })
	nested := issue(t, func(d *grants.Draft) { d.Series, d.Scope = "part-1", prefixes(t, "https://example.com/doc/part/") })
	newer := issue(t, func(d *grants.Draft) { d.Sequence, d.Purposes = 8, grants.Purposes{grants.SearchIndex} })
	twin := issue(t, func(d *grants.Draft) { d.Lifetime = time.Hour })
	brief := issue(t, func(d *grants.Draft) {
		d.Series, d.Scope, d.Lifetime = "blog-1", prefixes(t, "https://example.com/blog/"), 5*time.Second
	})
	foreign := issue(t, func(d *grants.Draft) { d.Series, d.Indexer = "blog-1", other })
	for _, tt := range []struct {
		name   string
		shown  []grants.Pair
		change func(*grants.AnnouncementBody)
		held   []grants.Pair // nil: what is shown
		want   []grants.Refusal
	}{
		{"two series", []grants.Pair{blog, docs}, nil, nil, nil},
		{"no grant", nil, func(b *grants.AnnouncementBody) {
			b.Requests = announce(t, docs).Requests
		}, nil, []grants.Refusal{{Reason: grants.ErrNoGrant}}},
		{"a purpose beyond the grant", []grants.Pair{blog, docs}, func(b *grants.AnnouncementBody) {
			b.Requests[1].Purposes = grants.Purposes{grants.AITrain, grants.SearchIndex}
		}, nil, []grants.Refusal{{Series: "docs-1", GrantID: docs.Grant.Object.ID, Reason: grants.ErrPurpose}}},
		{"a scope beyond the grant", []grants.Pair{docs}, func(b *grants.AnnouncementBody) {
			b.Requests[0].Scope = prefixes(t, "https://example.com/")
		}, nil, []grants.Refusal{{Series: "docs-1", GrantID: docs.Grant.Object.ID, Reason: grants.ErrScope}}},
		{"a series without a grant", []grants.Pair{docs}, func(b *grants.AnnouncementBody) {
			b.Requests[0].Series = "docs-2"
		}, nil, []grants.Refusal{{Series: "docs-2", Reason: grants.ErrNoGrant}}},
		{"a grant that is not presented", []grants.Pair{docs}, nil, []grants.Pair{}, []grants.Refusal{
			{GrantID: docs.Grant.Object.ID, Reason: grants.ErrNoGrant}, {Reason: grants.ErrPolicy}, {Series: "docs-1", Reason: grants.ErrNoGrant},
		}},
		{"a grant that is not announced", []grants.Pair{docs}, nil, []grants.Pair{docs, blog}, []grants.Refusal{
			{Series: "blog-1", GrantID: blog.Grant.Object.ID, Reason: grants.ErrMalformed},
		}},
		{"a grant that has expired", []grants.Pair{brief, docs}, nil, nil, []grants.Refusal{
			{Series: "blog-1", GrantID: brief.Grant.Object.ID, Reason: grants.ErrExpired}, {Series: "blog-1", Reason: grants.ErrNoGrant},
		}},
		{"a grant for another indexer", []grants.Pair{foreign, docs}, nil, nil, []grants.Refusal{
			{Series: "blog-1", GrantID: foreign.Grant.Object.ID, Reason: grants.ErrAudience}, {Series: "blog-1", Reason: grants.ErrNoGrant},
		}},
		{"two series that meet", []grants.Pair{docs, nested}, nil, nil, []grants.Refusal{
			{Series: "part-1", GrantID: nested.Grant.Object.ID, Reason: grants.ErrOverlap},
		}},
		{"two different grants at one position", []grants.Pair{docs, twin}, func(b *grants.AnnouncementBody) {
			b.Requests = b.Requests[:1]
		}, nil, []grants.Refusal{{Series: "docs-1", GrantID: twin.Grant.Object.ID, Reason: grants.ErrEquivocation}}},
		{"what the older of two grants allowed", []grants.Pair{newer, docs}, func(b *grants.AnnouncementBody) {
			b.Requests = b.Requests[1:]
		}, nil, []grants.Refusal{{Series: "docs-1", GrantID: newer.Grant.Object.ID, Reason: grants.ErrPurpose}}},
		{"what the newer of two grants allows", []grants.Pair{newer, docs}, func(b *grants.AnnouncementBody) {
			b.Requests = b.Requests[:1]
		}, nil, nil},
		{"less than the grant allows", []grants.Pair{docs}, func(b *grants.AnnouncementBody) {
			b.Requests[0].Purposes = grants.Purposes{grants.SearchIndex}
			b.Requests[0].Scope = prefixes(t, "https://example.com/doc/a", "https://example.com/doc/b/")
		}, nil, nil},
		{"revocations alone, for no purpose", []grants.Pair{docs}, func(b *grants.AnnouncementBody) {
			b.Requests[0].Actions, b.Requests[0].Purposes = []grants.Action{grants.Withdraw}, nil
		}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			intact := unchanged(t, docs, blog, nested, newer, twin, brief, foreign)
			b := announce(t, tt.shown...)
			if tt.change != nil {
				tt.change(&b)
			}
			held := tt.held
			if held == nil {
				held = tt.shown
			}
			got := grants.CheckAnnouncement(signAnnouncement(t, b), session(), held)
			for i, r := range got {
				if r.Detail == "" {
					t.Errorf("refusal %+v without a word", r)
				}
				got[i].Detail = ""
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("refusals %+v, want %+v", got, tt.want)
			}
			intact()
		})
	}
}

func TestOpenAnnouncementRefuses(t *testing.T) {
	p := issue(t, nil)
	for _, tt := range []struct {
		name   string
		change func(*envelope.Header, *grants.AnnouncementBody)
		view   func(*grants.Verifier)
		want   grants.Reason
	}{
		{"what was signed is accepted", nil, nil, ""},
		{"another publisher's session", nil, func(v *grants.Verifier) { v.Publisher = stranger }, grants.ErrIssuer},
		{"another indexer's session", nil, func(v *grants.Verifier) { v.Indexer = other }, grants.ErrAudience},
		{"a minute later", nil, func(v *grants.Verifier) { v.Now = noon.Add(time.Minute) }, grants.ErrExpired},
		{"a life of 61 seconds", func(h *envelope.Header, _ *grants.AnnouncementBody) { h.ExpiresAt = noon.Add(61 * time.Second) }, nil, grants.ErrLifetime},
		{"no exporter", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Exporter = grants.Binding{} }, nil, grants.ErrMalformed},
		{"no nonce", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Nonce = grants.Binding{} }, nil, grants.ErrMalformed},
		{"no request", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Requests = nil }, nil, grants.ErrMalformed},
		{"a grant twice", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Grants = append(b.Grants, b.Grants...) }, nil, grants.ErrMalformed},
		{"a series twice", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Requests = append(b.Requests, b.Requests...) }, nil, grants.ErrMalformed},
		{"too many grants", func(_ *envelope.Header, b *grants.AnnouncementBody) {
			b.Grants = make([]envelope.Hash, grants.MaxRequests+1)
		}, nil, grants.ErrMalformed},
		{"no action", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Requests[0].Actions = nil }, nil, grants.ErrMalformed},
		{"an unknown action", func(_ *envelope.Header, b *grants.AnnouncementBody) {
			b.Requests[0].Actions = []grants.Action{"deletion"}
		}, nil, grants.ErrMalformed},
		{"actions out of order", func(_ *envelope.Header, b *grants.AnnouncementBody) {
			b.Requests[0].Actions = []grants.Action{grants.Refresh, grants.Discover}
		}, nil, grants.ErrMalformed},
		{"no series", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Requests[0].Series = "" }, nil, grants.ErrMalformed},
		{"no purpose", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Requests[0].Purposes = nil }, nil, grants.ErrPurpose},
		{"an unknown purpose", func(_ *envelope.Header, b *grants.AnnouncementBody) {
			b.Requests[0].Purposes = grants.Purposes{"ai.dream"}
		}, nil, grants.ErrPurpose},
		{"an empty scope", func(_ *envelope.Header, b *grants.AnnouncementBody) { b.Requests[0].Scope.Prefixes = nil }, nil, grants.ErrScope},
	} {
		t.Run(tt.name, func(t *testing.T) {
			intact := unchanged(t, p)
			h := envelope.Header{
				Type: envelope.Announcement, Authority: publisher.Authority(), Subject: publisher, Audience: indexer,
				Epoch: 1, IssuedAt: noon, ExpiresAt: noon.Add(grants.AnnouncementLife),
			}
			b := announce(t, p)
			if tt.change != nil {
				tt.change(&h, &b)
			}
			v := verifier(t)
			if tt.view != nil {
				tt.view(&v)
			}
			_, err := grants.OpenAnnouncement(signed(t, h, members(t, &b), signerOf(t, publisher)), v)
			wantReason(t, err, tt.want)
			if tt.change != nil && tt.want != grants.ErrLifetime {
				_, err := grants.SignAnnouncement(b, grants.Stamp{Indexer: indexer, Epoch: 1, At: noon}, signerOf(t, publisher))
				wantReason(t, err, tt.want)
			}
			intact()
		})
	}
}

// FuzzOpenAnnouncement opens any octets, and whatever opens is checked against
// a session without a panic.
func FuzzOpenAnnouncement(f *testing.F) {
	p := issue(f, nil)
	a := signAnnouncement(f, announce(f, p))
	f.Add(a.Object.Raw)
	f.Add(p.Grant.Object.Raw)
	v := verifier(f)
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := grants.OpenAnnouncement(raw, v)
		if err != nil {
			return
		}
		if refusals := grants.CheckAnnouncement(a, session(), []grants.Pair{p}); len(refusals) == 0 && a.Body.Nonce != session().Nonce {
			t.Fatalf("admitted for another stream: %s", raw)
		}
	})
}
