package tct_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// conforms checks a document with a library that others wrote, against a schema
// of schema/.
func conforms(t testing.TB, schema string, document []byte) error {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	compiled, err := c.Compile("schema/" + schema + ".json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(value)
}

func TestWhatIsWrittenConformsToTheSchemas(t *testing.T) {
	payload, _ := tct.Encode(nil, tct.Document{URL: helloURL, Title: "t", Content: "c", Language: "en"})
	policy, err := tct.Policy{
		Version: 3, Updated: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Contact: "https://example.com/c",
		AllowAITrain: content.No, LinkBackRequired: content.Yes, MaxRequestsPerSecond: 0.5,
	}.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var sitemap, index bytes.Buffer
	if _, err := tct.WriteSitemaps(items(numbered(3)), tct.Bounds{}, func(int) (io.WriteCloser, error) { return closer{&sitemap}, nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := tct.WriteIndex(&index, []tct.Child{{URL: "https://example.com/s.json", ETag: fooHash}}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, schema string
		document     []byte
		want         bool
	}{
		{"our payload", "payload", payload, true},
		{"our sitemap", "sitemap", sitemap.Bytes(), true},
		{"our index", "sitemap", index.Bytes(), true},
		{"our policy", "policy", policy, true},
		{"an empty policy", "policy", []byte(`{"profile":"tct-policy-1","version":1}`), true},
		{"the draft's payload", "payload", example(t, "payload-minimal.json"), true},
		{"the draft's extended payload", "payload", example(t, "payload-extended.json"), true},
		{"the draft's sitemap", "sitemap", example(t, "sitemap.json"), true},
		{"the draft's policy", "policy", example(t, "policy.json"), true},
		{"the draft's payload without a hash", "payload", example(t, "methoda-without-hash.json"), false},
		{"the draft's sitemap with hashes cut short", "sitemap", example(t, "sitemap-homepage.json"), false},
		{"a sitemap of another version", "sitemap", bytes.Replace(sitemap.Bytes(), []byte(`"version":1`), []byte(`"version":"1"`), 1), false},
		{"a sitemap with a date alone", "sitemap", bytes.Replace(sitemap.Bytes(), []byte(`T00:00:00Z`), nil, 1), false},
		{"a policy with a purpose in words", "policy", []byte(strings.Replace(string(policy), `"allow_ai_train":false`, `"allow_ai_train":"no"`, 1)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := conforms(t, tt.schema, tt.document); (err == nil) != tt.want {
				t.Errorf("%v for %s", err, tt.document)
			}
		})
	}
}
