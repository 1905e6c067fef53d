package indexer

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// A badObject is a grant that must be refused when it is announced, and the
// number of its case in doc/negative-cases.md.
type badObject struct {
	number int
	name   string
	raw    []byte
	want   grants.Reason
}

// forger makes bad grants out of a good one.
type forger struct {
	t    testing.TB
	s    *series
	good string
}

// swap puts new in the place of the one old in the good grant.
func (f forger) swap(old, new string) []byte {
	f.t.Helper()
	if n := strings.Count(f.good, old); n != 1 {
		f.t.Fatalf("%q stands %d times in %s", old, n, f.good)
	}
	return []byte(strings.Replace(f.good, old, new, 1))
}

// signed is the good grant after edit, signed anew by signers.
func (f forger) signed(edit func(h *envelope.Header, b *grants.GrantBody), signers ...*envelope.Signer) []byte {
	f.t.Helper()
	o, b := f.s.pair.Grant.Object, f.s.pair.Grant.Body
	h := envelope.Header{
		Type: o.Type, Authority: o.Authority, Subject: o.Subject, Audience: o.Audience, Epoch: o.Epoch, Sequence: o.Sequence,
		IssuedAt: o.IssuedAt, NotBefore: o.NotBefore, ExpiresAt: o.ExpiresAt,
	}
	edit(&h, &b)
	if len(signers) == 0 {
		signers = []*envelope.Signer{f.s.p.local.Envelope}
	}
	members := looseBody{}
	if raw := must[[]byte](f.t)(envelope.Canonical(&b)); envelope.DecodeCanonical(raw, &members) != nil {
		f.t.Fatalf("%s is no object", raw)
	}
	return must[*envelope.Object](f.t)(envelope.Sign(h, members, signers...)).Raw
}

// looseBody is a body without the checks of its type.
type looseBody map[string]any

// signatures is the list of an object, from its bracket to its bracket.
func signatures(raw []byte) string {
	rest := raw[bytes.Index(raw, []byte(`"signatures":[`))+len(`"signatures":`):]
	return string(rest[:bytes.IndexByte(rest, ']')+1])
}

// formCases are refused for their octets alone, whoever signed them.
func (f forger) formCases() []badObject {
	const bad = grants.ErrMalformed
	o := f.s.pair.Grant.Object
	epoch := func(v string) []byte { return f.swap(`"epoch":1,`, `"epoch":`+v+`,`) }
	issued := func(v string) []byte {
		return f.swap(`"issued_at":"`+envelope.At(o.IssuedAt).String()+`"`, `"issued_at":"`+v+`"`)
	}
	deep := func(n int) string {
		return fmt.Sprintf(`"extensions":{"a.example/x":{"critical":false,"data":%s1%s}},"issued_at"`, strings.Repeat("[", n), strings.Repeat("]", n))
	}
	const issuer = `"issuer":"spiffe://example.com/publisher"`
	all := []badObject{
		{1, "256 KiB and one octet", []byte(f.good + strings.Repeat(" ", envelope.MaxSize+1-len(f.good))), bad},
		{1, "a depth of 17", f.swap(`"issued_at"`, deep(envelope.MaxDepth-2)), bad},
		{1, "200,000 open brackets", bytes.Repeat([]byte("["), 200_000), bad},
		{2, "a byte order mark", []byte("\xef\xbb\xbf" + f.good), bad},
		{2, "a newline behind it", []byte(f.good + "\n"), bad},
		{2, "a second value behind it", []byte(f.good + "{}"), bad},
		{2, "a space behind a colon", epoch(" 1"), bad},
		{2, "two members in the other order", f.swap(`"constraints":{},`+issuer, issuer+`,"constraints":{}`), bad},
		{3, "a member twice", epoch(`1,"epoch":1`), bad},
		{3, "a member twice inside the body", f.swap(issuer, issuer+","+issuer), bad},
		{3, "a member again under an escape", epoch(`1,"\u0065poch":1`), bad},
		{3, "a member again under an escape, inside the body", f.swap(issuer, issuer+`,"\u0069ssuer":"spiffe://example.com/publisher"`), bad},
		{4, "a member in capitals beside the real one", f.swap(`"audience"`, `"OBJECT_TYPE":"feed","audience"`), bad},
		{4, "a body member in capitals", f.swap(issuer, `"ISSUER":"spiffe://example.net/publisher",`+issuer), bad},
		{4, "a long s, which folds to s", f.swap(issuer, issuer+`,"iſſuer":"spiffe://example.net/publisher"`), bad},
		{4, "the Kelvin sign, which folds to k", f.swap(issuer, issuer+",\"\u212aeys\":[]"), bad},
		{5, "an unknown member", f.swap(`"issued_at"`, `"hint":1,"issued_at"`), bad},
		{5, "a member missing", f.swap(`"epoch":1,`, ``), bad},
		{5, "a member of the body missing", f.swap(`"listing":"blinded",`, ``), bad},
		{5, "null for a member", epoch("null"), bad},
		{6, "the octet ff in a value", f.swap(`"listing":"blinded"`, "\"listing\":\"p\xffush\""), bad},
		{6, "the octet ff in a name", f.swap(`"listing":`, "\"l\xffisting\":"), bad},
		{6, "CESU-8 in a value", f.swap(`"listing":"blinded"`, "\"listing\":\"p\xed\xa0\xbd\xed\xb8\x80\""), bad},
		{6, "a high surrogate alone", f.swap(`"listing":"blinded"`, `"listing":"\ud83d"`), bad},
		{6, "surrogates in the other order", f.swap(`"listing":"blinded"`, `"listing":"\ude00\ud83d"`), bad},
		{8, "a version to come", f.swap(`uzpif-oi-env/1"`, `uzpif-oi-env/2"`), bad},
		{8, "a version with a space behind", f.swap(`uzpif-oi-env/1"`, `uzpif-oi-env/1 "`), bad},
		{8, "no version", f.swap(`"envelope_version":"uzpif-oi-env/1",`, ``), bad},
		{9, "an unknown type", f.swap(`"discovery-grant"`, `"grant"`), bad},
		{9, "a policy for a grant", f.s.pair.Policy.Object.Raw, bad},
		{10, "an extension that does not say whether it is critical", f.swap(`"issued_at"`, `"extensions":{"a.example/x":{"data":1}},"issued_at"`), bad},
		{10, "empty extensions", f.swap(`"issued_at"`, `"extensions":{},"issued_at"`), bad},
		{11, "the object_id of another", f.swap(o.ID.String(), envelope.Hash{1}.String()), bad},
		{11, "an object_id in capitals", f.swap(o.ID.String(), strings.ToUpper(o.ID.String())), bad},
		{11, "an object_id cut short", f.swap(o.ID.String(), o.ID.String()[:69]), bad},
		{11, "an object_id of another algorithm", f.swap(o.ID.String(), strings.Replace(o.ID.String(), "sha256", "sha512", 1)), bad},
		{28, "a digest in place of the body", f.swap(string(o.Body), `"`+envelope.Hash{1}.String()+`"`), bad},
		{29, "a body that names an audience of its own", f.swap(`"constraints":{}`, `"audience":"spiffe://search.example/indexer","constraints":{}`), bad},
		{29, "a body that names an epoch of its own", f.swap(issuer, `"epoch":9,`+issuer), bad},
		{31, "an empty audience", f.swap(`"audience":"spiffe://search.example/indexer"`, `"audience":""`), bad},
		{31, "an array of audiences", f.swap(`"audience":"spiffe://search.example/indexer"`, `"audience":["spiffe://search.example/indexer"]`), bad},
	}
	for _, v := range []string{"1.0", "1e0", "01", "+1", "-0", `"1"`, "9007199254740992", "-1", "1E400"} {
		all = append(all, badObject{7, "epoch " + v, epoch(v), bad})
	}
	for _, v := range []string{"2026-11-03T12:00:00+00:00", "2026-11-03T12:00:00,5Z", "2026-11-03T1:00:00Z", "2026-11-03T12:00:60Z", "2026-02-30T12:00:00Z", "2026-11-03T12:00:00z"} {
		all = append(all, badObject{24, "issued_at " + v, issued(v), bad})
	}
	return all
}

// signatureCases are refused for who signed them, or how.
func (f forger) signatureCases(other *envelope.Signer) []badObject {
	const bad, unsigned = grants.ErrMalformed, grants.ErrSignature
	o := f.s.pair.Grant.Object
	list, sig := signatures(o.Raw), o.Signatures[0].Sig
	octets, _ := base64.RawURLEncoding.DecodeString(sig)
	one := strings.Trim(list, "[]")
	change := func(as string) []byte { return f.swap(list, as) }
	as := func(text string) []byte { return f.swap(sig, text) }
	both := f.signed(func(*envelope.Header, *grants.GrantBody) {}, f.s.p.local.Envelope, other)
	two := strings.Split(strings.Trim(signatures(both), "[]"), "},{")
	stranger := must[*envelope.Signer](f.t)(envelope.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))))
	other17 := slices.Repeat([]string{one}, 17)
	raised := f.signed(func(h *envelope.Header, _ *grants.GrantBody) { h.Sequence = 9 })
	highest := f.signed(func(h *envelope.Header, _ *grants.GrantBody) { h.Sequence = envelope.MaxInteger })
	return []badObject{
		{12, "a changed body under its own object_id, with the old signature", bytes.Replace(raised, []byte(signatures(raised)), []byte(list), 1), unsigned},
		{13, "no signatures", change("[]"), bad},
		{13, "17 signatures", change("[" + strings.Join(other17, ",") + "]"), bad},
		{13, "the same signature twice", change("[" + one + "," + one + "]"), bad},
		{13, "two signatures in the other order", bytes.Replace(both, []byte(signatures(both)), []byte("[{"+two[1]+","+two[0]+"}]"), 1), bad},
		{15, "the algorithm EdDSA", f.swap(`"alg":"Ed25519"`, `"alg":"EdDSA"`), bad},
		{15, "the algorithm none", f.swap(`"alg":"Ed25519"`, `"alg":"none"`), bad},
		{15, "the algorithm HS256", f.swap(`"alg":"Ed25519"`, `"alg":"HS256"`), bad},
		{16, "the key_id of another trusted key", f.swap(o.Signatures[0].KeyID.String(), other.Public().ID().String()), unsigned},
		{17, "63 octets", as(base64.RawURLEncoding.EncodeToString(octets[:63])), bad},
		{17, "65 octets", as(base64.RawURLEncoding.EncodeToString(append(slices.Clone(octets), 0))), bad},
		{17, "S plus the group order", as(secondForm(octets)), unsigned},
		{19, "a padded signature", as(sig + "=="), bad},
		{19, "a line break behind the signature", as(sig + `\n`), bad},
		{19, "bits behind the last octet", as(sig[:85] + string(sig[85]+1)), bad},
		{19, "the standard alphabet", as("+/" + sig[2:]), bad},
		{20, "the signature of a policy", bytes.Replace(o.Raw, []byte(list), []byte(signatures(f.s.pair.Policy.Object.Raw)), 1), unsigned},
		{21, "only an unknown key", f.signed(func(*envelope.Header, *grants.GrantBody) {}, stranger), unsigned},
		{21, "the signer, and junk of a known key", bytes.Replace(both, []byte(sigOf(both, other)), []byte(strings.Repeat("A", 86)), 1), unsigned},
		{22, "only the key of another publisher", f.signed(func(*envelope.Header, *grants.GrantBody) {}, other), unsigned},
		{26, "the highest sequence, under junk of the signer's key", bytes.Replace(highest, []byte(sigOf(highest, f.s.p.local.Envelope)), []byte(strings.Repeat("A", 86)), 1), unsigned},
		{28, "no list of signatures, as if they stood beside", f.swap(`,"signatures":`+list, ``), bad},
	}
}

// sigOf is the signature of one of an object's signers.
func sigOf(raw []byte, s *envelope.Signer) string {
	o, err := envelope.Parse(raw)
	if err != nil {
		return ""
	}
	for _, sig := range o.Signatures {
		if sig.KeyID == s.Public().ID() {
			return sig.Sig
		}
	}
	return ""
}

// secondForm is a signature whose scalar is raised by the order of the group.
func secondForm(octets []byte) string {
	order, _ := new(big.Int).SetString("27742317777372353535851937790883648493", 10)
	order.Add(order, new(big.Int).Lsh(big.NewInt(1), 252))
	b := slices.Clone(octets)
	slices.Reverse(b[32:])
	sum := new(big.Int).Add(new(big.Int).SetBytes(b[32:]), order)
	sum.FillBytes(b[32:])
	slices.Reverse(b[32:])
	return base64.RawURLEncoding.EncodeToString(b)
}

// meaningCases are well formed and well signed, and grant nothing here and now.
func (f forger) meaningCases() []badObject {
	now := f.s.p.r.now()
	with := func(edit func(h *envelope.Header, b *grants.GrantBody)) []byte { return f.signed(edit) }
	return []badObject{
		{10, "an unknown critical extension", with(func(h *envelope.Header, _ *grants.GrantBody) {
			h.Extensions = map[string]envelope.Extension{"a.example/x": {Critical: true, Data: []byte("1")}}
		}), grants.ErrMalformed},
		{23, "the second of expiry", with(func(h *envelope.Header, _ *grants.GrantBody) { h.IssuedAt, h.ExpiresAt = now.Add(-time.Hour), now }), grants.ErrExpired},
		{23, "a life over the cap", with(func(h *envelope.Header, _ *grants.GrantBody) { h.ExpiresAt = now.Add(grants.MaxLifetime + time.Second) }), grants.ErrLifetime},
		{23, "issued 121 s ahead", with(func(h *envelope.Header, _ *grants.GrantBody) { h.IssuedAt = now.Add(121 * time.Second) }), grants.ErrNotYetValid},
		{31, "an audience that is somebody else", with(func(h *envelope.Header, _ *grants.GrantBody) { h.Audience = "spiffe://other.example/indexer" }), grants.ErrAudience},
		{31, "an issuer that is somebody else", with(func(_ *envelope.Header, b *grants.GrantBody) { b.Issuer = "spiffe://example.net/publisher" }), grants.ErrSignature},
		{31, "a subject that is somebody else", with(func(h *envelope.Header, _ *grants.GrantBody) { h.Subject = "spiffe://example.net/publisher" }), grants.ErrIssuer},
		{36, "a scope without a prefix", with(func(_ *envelope.Header, b *grants.GrantBody) { b.Scope.Prefixes = []string{} }), grants.ErrScope},
		{36, "no purposes", with(func(_ *envelope.Header, b *grants.GrantBody) { b.Purposes = grants.Purposes{} }), grants.ErrPurpose},
	}
}

// reasonFor announces a series with raw for its grant, on a stream of its own,
// and gives the reason of the refusal; none if it was admitted.
func (s *series) reasonFor(raw []byte) grants.Reason {
	s.p.r.t.Helper()
	c := s.p.greeted()
	defer c.close()
	f := c.announcement(s)
	f.Grants = [][]byte{raw}
	if o, err := envelope.Parse(raw); err == nil { // one that can be named is named
		listed := *s
		listed.pair.Grant = &grants.Grant{Object: o, Body: s.pair.Grant.Body}
		f.Announcement = c.announcement(&listed).Announcement
	}
	c.send(&oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Announce{Announce: f}})
	answer := c.next()
	if fault := answer.GetFault(); fault != nil {
		return grants.Reason(fault.Reason)
	}
	for _, r := range answer.GetAnnounceResult().GetRefusals() {
		if r.Reason != string(grants.ErrNoGrant) { // which follows from the other
			return grants.Reason(r.Reason)
		}
	}
	return ""
}

// everything is every row of the store.
func (r *rig) everything() map[string]string {
	r.t.Helper()
	all := make(map[string]string)
	for kv, err := range r.x.store.Scan([]byte{0}, bytes.Repeat([]byte{0xff}, 64)) {
		if err != nil {
			r.t.Fatal(err)
		}
		all[string(kv.Key)] = string(kv.Value)
	}
	return all
}

// unchanged compares every row of the store with what it was.
func (r *rig) unchanged(before map[string]string) {
	r.t.Helper()
	after := r.everything()
	for key := range before {
		if _, ok := after[key]; !ok {
			r.t.Errorf("row %q is gone", key)
		}
	}
	for key, value := range after {
		if old, ok := before[key]; !ok || old != value {
			r.t.Errorf("row %q is new or another one", key)
		}
	}
}

// quietRig is a rig whose log publishes nothing by itself, which would be a
// change of its own.
func quietRig(t *testing.T) *rig {
	t.Helper()
	r := newRig(t)
	r.close()
	r.publish = time.Hour
	r.open()
	return r
}

// TestNoBadGrantChangesTheStore brings each bad grant over a real session to an
// indexer that holds pages already. It is refused by its reason, and every row
// of the store is what it was; what must be accepted is accepted afterwards,
// beginning with a sequence that a bad signature had named before.
func TestNoBadGrantChangesTheStore(t *testing.T) {
	t.Parallel()
	r := quietRig(t)
	s, open := r.example().held(2)
	open.close()
	other := r.publisher("spiffe://example.net/publisher", "https://example.net")
	next := s.p.series("blog-1", blogs, nil)
	f := forger{t, next, string(next.pair.Grant.Object.Raw)}
	before := r.everything()
	if len(before) < 10 {
		t.Fatalf("the store holds %d rows", len(before))
	}
	cases := slices.Concat(f.formCases(), f.signatureCases(other.local.Envelope), f.meaningCases())
	for _, tt := range cases {
		t.Run(fmt.Sprintf("%d: %s", tt.number, tt.name), func(t *testing.T) {
			if bytes.Equal(tt.raw, next.pair.Grant.Object.Raw) {
				t.Fatal("nothing is wrong with it")
			}
			if got := next.reasonFor(tt.raw); got != tt.want {
				t.Errorf("refused for %q, want %q", string(got), string(tt.want))
			}
			r.unchanged(before)
		})
	}
	harmless := f.signed(func(h *envelope.Header, _ *grants.GrantBody) {
		h.Extensions = map[string]envelope.Extension{"a.example/x": {Data: []byte(`"y"`)}}
	})
	if got := next.reasonFor(harmless); got != "" {
		t.Errorf("10: an unknown extension that is not critical is refused for %q", string(got))
	}
	if rec := must[*seriesRecord](t)(readSeries(r.x.store, next.p.local.Name(), next.name)); rec == nil {
		t.Error("what was admitted is not there")
	}
}
