package envelope

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheEnvelopeIsClosed(t *testing.T) {
	s := rfcSigner(t, 0)
	with := func(name string, v any) []byte { return forge(t, func(d doc) { d[name] = v }, s) }
	body := func(name string, v any) []byte { return forge(t, func(d doc) { d["body"].(doc)[name] = v }, s) }
	lacks := func(name string) []byte { return forge(t, func(d doc) { delete(d, name) }, s) }
	raw := goodGrant(t)
	rows := []refusal{
		{"an unknown member", with("nonce", "x"), ErrSchema, "nonce"},
		{"an unknown member of the body", body("nonce", "x"), ErrSchema, "body.nonce"},
		{"a version to come", with("envelope_version", "uzpif-oi-env/2"), ErrVersion, "envelope_version"},
		{"a version to come with members to come", forge(t, func(d doc) { d["envelope_version"], d["kind"] = "uzpif-oi-env/2", 1 }, s), ErrVersion, "envelope_version"},
		{"a version with a space behind", with("envelope_version", "uzpif-oi-env/1 "), ErrVersion, "envelope_version"},
		{"a version that is a number", with("envelope_version", 1), ErrVersion, "envelope_version"},
		{"no version", lacks("envelope_version"), ErrVersion, "envelope_version"},
		{"an unknown type", with("object_type", "grant"), ErrType, "object_type"},
		{"a type in capitals", with("object_type", "Discovery-Grant"), ErrType, "object_type"},
		{"a type that is an array", with("object_type", []string{"discovery-grant"}), ErrType, "object_type"},
		{"no type", lacks("object_type"), ErrType, "object_type"},
		{"another type than was asked for", with("object_type", "policy"), ErrType, "object_type"},
		{"no body", lacks("body"), ErrSchema, "body"},
		{"a digest in place of the body", with("body", "sha256:"+strings.Repeat("0", 64)), ErrSchema, "body"},
		{"an array in place of the body", with("body", []any{}), ErrSchema, "body"},
		{"a number in place of the body", with("body", 0), ErrSchema, "body"},
		{"an empty body, which names no signer", with("body", doc{}), ErrSchema, "body.issuer"},
		{"a signer that is no name", body("issuer", "Publisher"), ErrSchema, "body.issuer"},
		{"a signer that is a number", body("issuer", 5), ErrSchema, "body.issuer"},
		{"a body that names an audience of its own", body("audience", "urn:example:indexer:i2"), ErrSchema, "body.audience"},
		{"a body that names an epoch of its own", body("epoch", 9), ErrSchema, "body.epoch"},
		{"a body of another type", forge(t, func(d doc) { d["body"] = doc{"issuer": publisher, "policy": "x"} }, s), ErrSchema, "body.policy"},
		{"a body that its own checks refuse", body("count", 1001), ErrSchema, "body"},
		{"no audience on a grant", lacks("audience"), ErrSchema, "audience"},
		{"an empty audience", with("audience", ""), ErrSchema, "audience"},
		{"an array of audiences", with("audience", []string{string(indexer)}), ErrSchema, "audience"},
		{"an audience that is no name", with("audience", "indexer"), ErrSchema, "audience"},
		{"no expiry on a grant", lacks("expires_at"), ErrSchema, "expires_at"},
		{"an expiry at the beginning of validity", with("expires_at", "2026-03-16T00:00:00Z"), ErrSchema, "expires_at"},
		{"an expiry before not_before", with("not_before", "2026-05-01T00:00:00Z"), ErrSchema, "expires_at"},
		{"no object_id", tamper(t, raw, func(d doc) { delete(d, "object_id") }), ErrSchema, "object_id"},
		{"an object_id of zeros", tamper(t, raw, func(d doc) { d["object_id"] = "sha256:" + strings.Repeat("0", 64) }), ErrSchema, "object_id"},
		{"not_before is accepted", with("not_before", "2026-03-17T00:00:00Z"), nil, ""},
		{"an optional member of the body is accepted", body("hint", "x"), nil, ""},
		{"an optional member of the body, present although empty", body("hint", ""), ErrSchema, "body.hint"},
		{"an array that may be empty", body("tags", []string{}), nil, ""},
		{"an object for an array", body("tags", doc{}), ErrSchema, "body.tags"},
		{"a number below its field", body("count", -1), ErrSchema, "body.count"},
		{"a wrong item deep in the body", body("tags", []any{"a", 1}), ErrSchema, "body.tags.1"},
	}
	for _, name := range []string{"epoch", "issued_at", "issuer_authority", "sequence", "subject"} {
		rows = append(rows, refusal{name + " missing", lacks(name), ErrSchema, name})
	}
	for _, name := range []string{"count", "tags"} {
		rows = append(rows, refusal{"the body's " + name + " missing", forge(t, func(d doc) { delete(d["body"].(doc), name) }, s), ErrSchema, "body." + name})
	}
	for name := range docOf(t, raw) {
		rows = append(rows, refusal{name + " null", tamper(t, raw, func(d doc) { d[name] = nil }), ErrSyntax, name})
	}
	for _, name := range []string{"not_before", "extensions", "nonce"} {
		rows = append(rows, refusal{name + " null though it may be absent", with(name, nil), ErrSyntax, name})
	}
	checkRefusals(t, append(rows, refusal{"null inside the body", body("hint", nil), ErrSyntax, "body.hint"}))
}

func TestABodyReusesNoMemberNameOfTheEnvelope(t *testing.T) {
	names := []string{"extensions", "not_before"}
	for name := range docOf(t, goodGrant(t)) {
		names = append(names, name)
	}
	for _, name := range names {
		o, err := Parse(forge(t, func(d doc) { d["body"].(doc)[name] = 1 }, rfcSigner(t, 0)))
		wantRefused(t, o, err, ErrSchema, "body."+name)
	}
	if len(names) != 14 {
		t.Errorf("%d names, want 14", len(names))
	}
}

func TestTimesHaveOneForm(t *testing.T) {
	s := rfcSigner(t, 0)
	var rows []refusal
	for _, text := range []string{"2026-03-16T00:00:00+00:00", "2026-03-16T00:00:00-00:00", "2026-03-16T00:00:05,5Z", "2026-03-16T0:00:00Z",
		"2026-03-16T00:00:60Z", "2026-02-30T00:00:00Z", "2026-03-16T00:00:00z", "2026-03-16t00:00:00Z", "2026-03-16 00:00:00Z",
		"2026-03-16T24:00:00Z", "2026-13-16T00:00:00Z", "2026-03-16T00:00:00.0Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00Z",
		"12026-03-16T00:00:00Z", "+026-03-16T00:00:00Z", "2026-03-16T00:00Z", "", " 2026-03-16T00:00:00Z"} {
		rows = append(rows, refusal{"issued_at " + text, forge(t, func(d doc) { d["issued_at"] = text }, s), ErrSchema, "issued_at"})
	}
	checkRefusals(t, append(rows,
		refusal{"a time as a number", forge(t, func(d doc) { d["issued_at"] = 1773619200 }, s), ErrSchema, "issued_at"},
		refusal{"the 29th of February of a leap year is accepted", forge(t, func(d doc) { d["issued_at"] = "2024-02-29T23:59:59Z" }, s), nil, ""}))
}

func TestValidityIsHalfOpen(t *testing.T) {
	s := rfcSigner(t, 0)
	start, end := issued.AddDate(0, 0, 1), issued.AddDate(0, 0, 30)
	plain := goodGrant(t)
	later := forge(t, func(d doc) { d["not_before"] = At(start).String() }, s)
	for _, tt := range []struct {
		name   string
		raw    []byte
		now    time.Time
		want   error
		member string
	}{
		{"at the time of issue", plain, issued, nil, ""},
		{"issued 119 s ahead of our clock", plain, issued.Add(-119 * time.Second), nil, ""},
		{"issued 120 s ahead of our clock", plain, issued.Add(-120 * time.Second), nil, ""},
		{"issued 121 s ahead of our clock", plain, issued.Add(-121 * time.Second), ErrIssuedAhead, "issued_at"},
		{"no clock at all", plain, time.Time{}, ErrIssuedAhead, "issued_at"},
		{"the last nanosecond", plain, end.Add(-1), nil, ""},
		{"the second of expiry", plain, end, ErrExpired, "expires_at"},
		{"long after expiry", plain, end.AddDate(1, 0, 0), ErrExpired, "expires_at"},
		{"120 s before not_before", later, start.Add(-120 * time.Second), nil, ""},
		{"121 s before not_before", later, start.Add(-121 * time.Second), ErrNotYetValid, "not_before"},
		{"in another time zone", plain, end.Add(-1).In(time.FixedZone("", 3600)), nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var body note
			o, err := Open(tt.raw, &body, Expecting(DiscoveryGrant, trustIn(record(s)), tt.now))
			wantRefused(t, o, err, tt.want, tt.member)
			if _, err := Authenticate(tt.raw, &body, Expecting(DiscoveryGrant, trustIn(record(s)), tt.now)); err != nil {
				t.Errorf("authentic at any time, but %v", err)
			}
		})
	}
}

func TestEachTypeHasItsSignerAndAudience(t *testing.T) {
	s := rfcSigner(t, 0)
	for _, tt := range []struct {
		of       Type
		signer   string
		audience presence
		expires  bool
	}{
		{IdentityCard, "identity", forbidden, false},
		{Policy, "issuer", optional, false},
		{DiscoveryGrant, "issuer", required, true},
		{Feed, "issuer", forbidden, false},
		{Announcement, "publisher", required, true},
		{BatchManifest, "publisher", required, false},
		{Revocation, "publisher", required, false},
		{Entry, "indexer", forbidden, false},
		{Checkpoint, "indexer", forbidden, false},
		{Receipt, "indexer", required, false},
		{Acknowledgement, "indexer", required, false},
	} {
		t.Run(string(tt.of), func(t *testing.T) {
			attempt := func(signer string, audience, expires bool) (*Object, error) {
				return Parse(forge(t, func(d doc) {
					d["object_type"], d["body"] = tt.of, doc{signer: publisher}
					if !audience {
						delete(d, "audience")
					}
					if !expires {
						delete(d, "expires_at")
					}
				}, s))
			}
			given := tt.audience != forbidden
			o, err := attempt(tt.signer, given, true)
			if err != nil || o.Type != tt.of || o.Signer != publisher {
				t.Errorf("Parse = %v, %v", o, err)
			}
			if o, err = attempt("owner", given, true); true {
				wantRefused(t, o, err, ErrSchema, "body."+tt.signer)
			}
			if o, err = attempt(tt.signer, !given, true); tt.audience != optional {
				wantRefused(t, o, err, ErrSchema, "audience")
			} else if err != nil {
				t.Error(err)
			}
			if o, err = attempt(tt.signer, given, false); tt.expires {
				wantRefused(t, o, err, ErrSchema, "expires_at")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestExtensionsNeedTheirForm(t *testing.T) {
	s := rfcSigner(t, 0)
	with := func(v any) []byte { return forge(t, func(d doc) { d["extensions"] = v }, s) }
	one := func(v any) []byte { return with(doc{"a.example/x": v}) }
	optional := one(doc{"critical": false, "data": doc{"k": []any{1, "y", true}}})
	const at = "extensions.a.example/x"
	checkRefusals(t, []refusal{
		{"one that is unknown and not critical is accepted", optional, nil, ""},
		{"and refused when one octet of it changes", swap(t, optional, `"y"`, `"z"`), ErrObjectID, "object_id"},
		{"one that is unknown and critical", one(doc{"critical": true, "data": 1}), ErrExtension, at},
		{"no extensions", with(doc{}), ErrSchema, "extensions"},
		{"an array of extensions", with([]any{}), ErrSchema, "extensions"},
		{"one without critical", one(doc{"data": 1}), ErrSchema, at + ".critical"},
		{"one whose critical is a string", one(doc{"critical": "true", "data": 1}), ErrSchema, at + ".critical"},
		{"one without data", one(doc{"critical": false}), ErrSchema, at + ".data"},
		{"one with a null for data", one(doc{"critical": false, "data": nil}), ErrSyntax, at + ".data"},
		{"one with a third member", one(doc{"critical": false, "data": 1, "more": 1}), ErrSchema, at + ".more"},
		{"one that is no object", one(1), ErrSchema, at},
		{"one without a domain", with(doc{"x": doc{"critical": false, "data": 1}}), ErrSyntax, "extensions"},
	})
	known := Expecting(DiscoveryGrant, trustIn(record(s)), noon)
	known.Extensions = []string{"a.example/x"}
	o, err := Open(one(doc{"critical": true, "data": 1}), new(note), known)
	if err != nil || !o.Extensions["a.example/x"].Critical || string(o.Extensions["a.example/x"].Data) != "1" {
		t.Errorf("a critical extension that is known: %v, %v", o, err)
	}
}

func TestAnObjectOwnsItsOctets(t *testing.T) {
	raw := goodGrant(t)
	o, err := Parse(slices.Clone(raw))
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] = 'x'
	}
	if string(again.Raw) != string(o.Raw) || string(again.Body) != string(o.Body) || string(coreOf(again)) != string(coreOf(o)) {
		t.Error("what the caller did to its octets reached the object")
	}
}
