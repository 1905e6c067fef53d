package grants_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

func TestEveryRefusalHasAReason(t *testing.T) {
	wrap := func(kind error) error { return fmt.Errorf("outer: %w", &envelope.Error{Kind: kind}) }
	for _, tt := range []struct {
		name string
		err  error
		want grants.Reason
	}{
		{"no error has none", nil, ""},
		{"a fault of our own has none", io.ErrUnexpectedEOF, ""},
		{"a misconfigured verifier is a fault of our own", wrap(envelope.ErrConfig), ""},
		{"a reason is its own", grants.ErrScope, grants.ErrScope},
		{"a wrapped reason is found", fmt.Errorf("outer: %w", grants.ErrOverlap), grants.ErrOverlap},
		{"a bad signature", wrap(envelope.ErrSignature), grants.ErrSignature},
		{"a missing signature", wrap(envelope.ErrThreshold), grants.ErrSignature},
		{"an expired object", wrap(envelope.ErrExpired), grants.ErrExpired},
		{"an object of the future", wrap(envelope.ErrIssuedAhead), grants.ErrNotYetValid},
		{"an object that is not valid yet", wrap(envelope.ErrNotYetValid), grants.ErrNotYetValid},
		{"a superseded object", wrap(envelope.ErrStale), grants.ErrSuperseded},
		{"an equivocation", wrap(envelope.ErrEquivocates), grants.ErrEquivocation},
		{"octets of another form", wrap(envelope.ErrCanonical), grants.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := grants.ReasonOf(tt.err); got != tt.want {
				t.Errorf("ReasonOf = %q, want %q", string(got), string(tt.want))
			}
		})
	}
}

func TestReasonsOfLaterEditionsAreShown(t *testing.T) {
	if r := grants.Reason("moon-phase"); r.Known() || r.Error() != `refused ("moon-phase")` {
		t.Errorf("known: %t, in words: %s", r.Known(), r.Error())
	}
	if r := grants.ErrScope; !r.Known() || r.Error() != "outside the scope" {
		t.Errorf("known: %t, in words: %s", r.Known(), r.Error())
	}
}

func TestRefusalTellsWhatAndWhy(t *testing.T) {
	cause := &envelope.Error{Kind: envelope.ErrExpired, Member: "expires_at"}
	for _, tt := range []struct{ got, want string }{
		{(&grants.Error{Reason: grants.ErrScope}).Error(), "outside the scope"},
		{(&grants.Error{Reason: grants.ErrScope, Detail: "x"}).Error(), "outside the scope: x"},
		{(&grants.Error{Reason: grants.ErrExpired, Cause: cause}).Error(), "expires_at: expired"},
		{(&grants.Error{Reason: grants.ErrExpired, Detail: "x", Cause: cause}).Error(), "expired: x: expires_at: expired"},
	} {
		if tt.got != tt.want {
			t.Errorf("%q, want %q", tt.got, tt.want)
		}
	}
	r := grants.RefusalOf("docs-1", envelope.Hash{9}, &grants.Error{Reason: grants.ErrExpired, Cause: cause})
	if r.Series != "docs-1" || r.GrantID != (envelope.Hash{9}) || r.Reason != grants.ErrExpired || r.Detail != "expires_at: expired" {
		t.Errorf("RefusalOf = %+v", r)
	}
	if err := error(&grants.Error{Reason: grants.ErrExpired, Cause: cause}); !errors.Is(err, envelope.ErrExpired) || !errors.Is(err, grants.ErrExpired) {
		t.Error("a refusal is its reason and its cause")
	}
}
