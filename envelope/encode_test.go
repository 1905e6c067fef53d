package envelope

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawHeader draws headers, of which half make an envelope but for one member.
func drawHeader(t *rapid.T) Header {
	number := rapid.Uint64Max(MaxInteger)
	h := Header{
		Type:      rapid.SampledFrom([]Type{Entry, Checkpoint}).Draw(t, "type"),
		Authority: publisher.Authority(), Subject: "urn:uzpif-oi:rel:00",
		Epoch: number.Draw(t, "epoch"), Sequence: number.Draw(t, "sequence"),
		IssuedAt: issued.Add(time.Duration(rapid.IntRange(0, 1<<40).Draw(t, "since"))),
	}
	name := rapid.SampledFrom([]Name{publisher, indexer, "", "P1", "spiffe://a.example/\u2028\"", "\xff"})
	large := rapid.SampledFrom([]uint64{0, MaxInteger, MaxInteger + 1})
	at := rapid.SampledFrom([]time.Time{
		{}, issued, issued.Add(time.Hour), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), issued.In(time.FixedZone("", 3600)),
	})
	switch rapid.IntRange(0, 18).Draw(t, "spoilt") {
	case 0:
		h.Type = rapid.SampledFrom([]Type{DiscoveryGrant, Policy, Receipt, Revocation, "", "x"}).Draw(t, "other type")
	case 1:
		h.Authority = name.Draw(t, "authority")
	case 2:
		h.Subject = name.Draw(t, "subject")
	case 3:
		h.Audience = name.Draw(t, "audience")
	case 4:
		h.Epoch = large.Draw(t, "large epoch")
	case 5:
		h.Sequence = large.Draw(t, "large sequence")
	case 6:
		h.IssuedAt = at.Draw(t, "issued_at")
	case 7:
		h.NotBefore = at.Draw(t, "not_before")
	case 8:
		h.ExpiresAt = at.Draw(t, "expires_at")
	}
	return h
}

// TestSignBodyIsSign: what SignBody returns is what Parse makes of its octets and
// what Sign returns, and both refuse the same.
func TestSignBodyIsSign(t *testing.T) {
	s := rfcSigner(t, 0)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		h := drawHeader(t)
		r, _ := ruleOf(h.Type)
		if r.signer == "" {
			r.signer = "issuer"
		}
		var e Encoder
		e.Text(r.signer, string(publisher))
		body, err := e.Object()
		if err != nil {
			t.Fatal(err)
		}
		got, err := SignBody(h, body, publisher, s)
		want, refusal := Sign(h, doc{r.signer: publisher}, s)
		if (err == nil) != (refusal == nil) {
			t.Fatalf("SignBody of %+v: %v; Sign: %v", h, err, refusal)
		}
		if err != nil {
			return
		}
		accepted++
		again, err := Parse(got.Raw)
		if err != nil || !reflect.DeepEqual(got, again) || !reflect.DeepEqual(got, want) {
			t.Fatalf("SignBody returns %+v\nParse %+v, %v\nSign %+v", got, again, err, want)
		}
	})
	if accepted < 5 {
		t.Errorf("%d headers made an envelope", accepted)
	}
}

// TestSignBodiesIsSignBody: many at once are what each is alone, and if one is refused all
// are, with the error of the first.
func TestSignBodiesIsSignBody(t *testing.T) {
	s := rfcSigner(t, 0)
	accepted := 0
	var pad Pad
	rapid.Check(t, func(t *rapid.T) {
		drafts := make([]Draft, rapid.IntRange(0, 3*SignedTogether).Draw(t, "drafts"))
		spoilt := rapid.IntRange(0, 3).Draw(t, "any spoilt") == 0
		for i := range drafts {
			d := Draft{Header{
				Type: Entry, Authority: publisher.Authority(), Subject: publisher, Epoch: 1, Sequence: uint64(i), IssuedAt: issued,
			}, nil}
			if spoilt {
				d.Header = drawHeader(t)
			}
			r, known := ruleOf(d.Type)
			if !known {
				r.signer = "indexer"
			}
			var e Encoder
			e.Text(r.signer, string(publisher))
			e.Texts("x", make([]string, rapid.IntRange(0, 300).Draw(t, "length")))
			d.Body, _ = e.Object()
			drafts[i] = d
		}
		got, err := SignBodies(drafts, publisher, s)
		for i, d := range drafts {
			want, refusal := SignBody(d.Header, d.Body, publisher, s)
			if refusal != nil {
				if err == nil || err.Error() != refusal.Error() || got != nil {
					t.Fatalf("%v beside %d objects, want %v of number %d", err, len(got), refusal, i)
				}
				return
			}
			if err == nil && !reflect.DeepEqual(got[i], want) {
				t.Fatalf("number %d of %d is %+v, want %+v", i, len(drafts), got[i], want)
			}
		}
		if err != nil || len(got) != len(drafts) {
			t.Fatalf("%d of %d signed, %v", len(got), len(drafts), err)
		}
		for i := range got { // memory that is shared is not written to twice
			if o, err := Parse(got[i].Raw); err != nil || !reflect.DeepEqual(o, got[i]) {
				t.Fatalf("number %d of %d is not what Parse makes of it: %v", i, len(got), err)
			}
		}
		for first := 0; first < len(drafts); first += SignedTogether { // nor does used memory show
			end := min(first+SignedTogether, len(drafts))
			again, err := pad.SignBodies(drafts[first:end], publisher, s)
			if err != nil || len(again) != end-first {
				t.Fatalf("%d of %d signed, %v", len(again), end-first, err)
			}
			for i := range again {
				if !reflect.DeepEqual(&again[i], got[first+i]) {
					t.Fatalf("number %d is %+v on a pad, want %+v", first+i, &again[i], got[first+i])
				}
			}
			if rapid.Bool().Draw(t, "reset") {
				pad.Reset()
			}
		}
		accepted++
	})
	if accepted < 5 {
		t.Errorf("%d lists were signed", accepted)
	}
}

func TestSignBodyTakesNoExtensions(t *testing.T) {
	h := goodHeader()
	h.Extensions = map[string]Extension{"a.example/x": {Data: []byte("1")}}
	if o, err := SignBody(h, []byte(`{"issuer":"x"}`), publisher, rfcSigner(t, 0)); err == nil {
		t.Errorf("signed %s", o.Raw)
	}
}

// TestAnEncoderWritesWhatCanonicalWrites: the octets, and the refusals, are those of
// Canonical; beyond the limits of an envelope an Encoder refuses, as Parse does.
func TestAnEncoderWritesWhatCanonicalWrites(t *testing.T) {
	type doc struct {
		A Hash     `json:"a"`
		B uint64   `json:"b"`
		C string   `json:"c"`
		D []string `json:"d"`
		E Time     `json:"e"`
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "\xff", "\u2028\u2029<>&\"\\/\x00\x1f\x7f\b\f\n\r\t", "\U0010ffff"}))
		v := doc{
			TaggedHash("t", []byte(text.Draw(t, "hash"))), rapid.OneOf(rapid.Uint64(), rapid.Uint64Max(MaxInteger)).Draw(t, "number"),
			text.Draw(t, "text"), rapid.SliceOf(text).Draw(t, "texts"), At(time.Unix(rapid.Int64Range(-1<<37, 1<<38).Draw(t, "time"), 0)),
		}
		var e Encoder
		e.Hash("a", v.A)
		e.Number("b", v.B)
		e.Text("c", v.C)
		e.Texts("d", v.D)
		e.Time("e", v.E)
		got, err := e.Object()
		want, refusal := Canonical(v)
		if (err == nil) != (refusal == nil) || err == nil && !bytes.Equal(got, want) {
			t.Fatalf("%+v is written as %s, %v\nwant %s, %v", v, got, err, want, refusal)
		}
	})
	for name, write := range map[string]func(e *Encoder){
		"a string of MaxString and one":           func(e *Encoder) { e.Text("a", string(bytes.Repeat([]byte("x"), MaxString+1))) },
		"a string that is too long as it escapes": func(e *Encoder) { e.Text("a", string(bytes.Repeat([]byte{1}, MaxString/6+1))) },
		"MaxItems strings and one":                func(e *Encoder) { e.Texts("a", make([]string, MaxItems+1)) },
	} {
		var e Encoder
		write(&e)
		if b, err := e.Object(); err == nil {
			t.Errorf("%s: %d octets", name, len(b))
		}
	}
}

// TestAnEncoderBeginsAnew writes objects of all lengths in the memory of one another, with
// objects within, and one that failed between them.
func TestAnEncoderBeginsAnew(t *testing.T) {
	type inner struct {
		N uint64 `json:"n"`
		S string `json:"s"`
	}
	var e Encoder
	rapid.Check(t, func(t *rapid.T) {
		v := struct {
			A inner  `json:"a"`
			B string `json:"b"`
		}{inner{rapid.Uint64Max(MaxInteger).Draw(t, "n"), rapid.String().Draw(t, "s")}, rapid.String().Draw(t, "b")}
		want, err := Canonical(v)
		if err != nil {
			return // of what is no text there is none
		}
		e.Reset()
		e.Number("n", MaxInteger+1)
		if _, err := e.Object(); err == nil {
			t.Error("2^53 was written")
		}
		e.Reset()
		e.Within("a", func(e *Encoder) {
			e.Number("n", v.A.N)
			e.Text("s", v.A.S)
		})
		e.Text("b", v.B)
		if got, err := e.Object(); err != nil || string(got) != string(want) {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	})
	e.Reset()
	e.Within("none", func(*Encoder) {})
	if got, err := e.Object(); err != nil || string(got) != `{"none":{}}` {
		t.Errorf("%s, %v", got, err)
	}
}
