package indexer

import (
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

func TestAPayloadIsCheckedByItsOwnFormat(t *testing.T) {
	const url = "https://example.com/a"
	asTCT, _ := tct.Encode(nil, tct.Document{URL: url, Title: "A page", Content: "Words"})
	asSCP := []byte(`{"url":"https://example.com/a","title":"A page","description":"","modified":"2025-06-01T12:00:00Z","language":"en",` +
		`"content":[{"type":"text","text":"Words"}]}`)
	asARC := []byte(`{"ai_indexable":true,"ai_snapshot":{"content":"words"},"url":"` + url + `"}`)
	for _, tt := range []struct {
		name    string
		format  content.Format
		payload []byte
		url     string
		ok      bool
	}{
		{"a TCT payload", content.FormatTCT, asTCT, url, true},
		{"a page line", content.FormatSCP, asSCP, url, true},
		{"an ARC entry", content.FormatARC, asARC, url, true},
		{"an ARC entry of another page", content.FormatARC, asARC, url + "b", false},
		{"a page line of another page", content.FormatSCP, asSCP, url + "b", false},
		{"a page line that is cut off", content.FormatSCP, asSCP[:len(asSCP)-1], url, false},
		{"a page line under another name", content.FormatTCT, asSCP, url, false},
		{"a TCT payload under another name", content.FormatSCP, asTCT, url, false},
		{"a format that nobody knows", 255, asTCT, url, false},
		{"no format", 0, asTCT, url, false},
	} {
		if err := checkPayload(tt.format, tt.payload, tt.url); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
