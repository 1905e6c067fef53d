package envelope

import "testing"

// TestNestedKeysAreExact looks below the top, where another reader would decode
// a second time: a name that stands twice, under an escape or folded, is refused
// wherever it stands.
func TestNestedKeysAreExact(t *testing.T) {
	s := rfcSigner(t, 0)
	raw := forge(t, func(d doc) {
		d["extensions"] = doc{"a.example/x": doc{"critical": false, "data": doc{"k": 1}}}
	}, s)
	put := func(old, new string) []byte { return swap(t, raw, old, new) }
	const issuer, extension = `"issuer":"urn:example:publisher:p1"`, `"a.example/x":{"critical":false,"data":{"k":1}}`
	checkRefusals(t, []refusal{
		{"as it was signed", raw, nil, ""},
		{"a member of the body twice, once under an escape", put(issuer, issuer+`,"\u0069ssuer":"urn:example:publisher:p2"`), ErrSyntax, "body"},
		{"a member of the body once, under an escape", put(`"tags":`, `"\u0074ags":`), ErrSyntax, "body"},
		{"an extension twice", put(extension, extension+","+extension), ErrSyntax, "extensions.a.example/x"},
		{"an extension twice, once under an escape", put(extension, extension+`,"\u0061.example/x":{"critical":true,"data":1}`), ErrSyntax, "extensions"},
		{"critical twice", put(`"critical":false`, `"critical":false,"critical":true`), ErrSyntax, "extensions.a.example/x.critical"},
		{"critical twice, once in capitals", put(`"critical":false`, `"CRITICAL":true,"critical":false`), ErrSyntax, "extensions.a.example/x"},
		{"a member of an extension's data twice", put(`{"k":1}`, `{"k":1,"k":2}`), ErrSyntax, "extensions.a.example/x.data.k"},
		{"alg twice", put(`"alg":"Ed25519"`, `"alg":"Ed25519","alg":"none"`), ErrSyntax, "signatures.0.alg"},
		{"alg twice, once under an escape", put(`"alg":"Ed25519"`, `"\u0061lg":"none","alg":"Ed25519"`), ErrSyntax, "signatures.0"},
		{"sig in capitals beside the real one", put(`"sig":`, `"Sig":"x","sig":`), ErrSyntax, "signatures.0"},
	})
}
