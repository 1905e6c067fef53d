package convert

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/arc"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

const pageURL = "https://example.com/a"

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// payloads is one page in each format that a receiver may hold.
func payloads(t testing.TB) map[content.Format][]byte {
	t.Helper()
	p := content.Page{URL: pageURL, Format: content.FormatTCT, Title: "A title", Language: "en", Description: "What it is.", Modified: noon}
	p.Payload, p.Fingerprint = tct.Encode(nil, tct.Document{URL: pageURL, Title: "A title", Language: "en", Content: "Some words\nand others"})
	p.Digest = sha256.Sum256(p.Payload)
	all := map[content.Format][]byte{content.FormatTCT: p.Payload}
	line, _, err := scp.FromContent(&p)
	if err != nil {
		t.Fatal(err)
	}
	all[content.FormatSCP] = line
	if line, _, err = arc.FromContent(&p, true); err != nil {
		t.Fatal(err)
	}
	all[content.FormatARC] = line
	return all
}

func TestAPayloadAloneMakesItsPage(t *testing.T) {
	later := noon.Add(time.Hour)
	for format, payload := range payloads(t) {
		p, err := FromPayload(format, pageURL, payload, later)
		if err != nil {
			t.Fatalf("format %v: %v", format, err)
		}
		if p.URL != pageURL || p.Format != format || p.Title != "A title" || p.Language != "en" || p.Digest != sha256.Sum256(payload) || !bytes.Equal(p.Payload, payload) {
			t.Errorf("format %v: %+v", format, p)
		}
		want := noon // as the payload says
		if format == content.FormatTCT {
			want = later // it says nothing
		}
		if !p.Modified.Equal(want) {
			t.Errorf("format %v: modified %v, want %v", format, p.Modified, want)
		}
	}
}

func TestAPayloadOfSomethingElseMakesNoPage(t *testing.T) {
	all := payloads(t)
	for format, payload := range all {
		if p, err := FromPayload(format, pageURL+"b", payload, noon); err == nil {
			t.Errorf("format %v: the page of another URL is %+v", format, p)
		}
		if p, err := FromPayload(format, pageURL, payload[:len(payload)-1], noon); err == nil {
			t.Errorf("format %v: a payload that is cut short is %+v", format, p)
		}
		for other, foreign := range all {
			if p, err := FromPayload(format, pageURL, foreign, noon); format != other && err == nil {
				t.Errorf("a payload of format %v is a page of format %v: %+v", other, format, p)
			}
		}
	}
	for _, format := range []content.Format{0, 200} {
		if _, err := FromPayload(format, pageURL, all[content.FormatTCT], noon); err == nil {
			t.Errorf("format %v is taken", format)
		}
	}
}

// TestEveryFormatBecomesEveryOther: URL, title, language and words come across.
func TestEveryFormatBecomesEveryOther(t *testing.T) {
	for format, payload := range payloads(t) {
		p, err := FromPayload(format, pageURL, payload, noon)
		if err != nil {
			t.Fatal(err)
		}
		own, _, err := ToOwnTCT(p)
		if err != nil {
			t.Fatalf("format %v: %v", format, err)
		}
		d, err := tct.Decode(own.Payload)
		if err != nil || d.URL != pageURL || d.Title != "A title" || d.Language != "en" || !strings.Contains(d.Content, "Some words") {
			t.Errorf("format %v as TCT: %+v, %v", format, d, err)
		}
		if d.Hash != tct.FormatHash(own.Fingerprint) || own.Digest != sha256.Sum256(own.Payload) || own.Format != content.FormatTCT {
			t.Errorf("format %v as TCT: hash %s, fingerprint %x", format, d.Hash, own.Fingerprint)
		}
		line, _, err := ToSCP(p)
		if err != nil {
			t.Fatalf("format %v as SCP: %v", format, err)
		}
		back, err := scp.ParsePage(line)
		if err != nil || back.URL != pageURL || back.Title != "A title" || back.Language != "en" || !bytes.Contains(line, []byte("Some words")) {
			t.Errorf("format %v as SCP: %s, %v", format, line, err)
		}
		if format == content.FormatSCP && !bytes.Equal(line, payload) {
			t.Errorf("a line of SCP becomes %s, want %s", line, payload)
		}
	}
}

func TestAHashOfAnotherMethodIsMadeAnew(t *testing.T) {
	payload := payloads(t)[content.FormatTCT]
	d, err := tct.Decode(payload)
	if err != nil {
		t.Fatal(err)
	}
	foreign := bytes.Replace(payload, []byte(d.Hash), []byte("sha256-"+strings.Repeat("0", 64)), 1)
	p, err := FromPayload(content.FormatTCT, pageURL, foreign, noon)
	if err != nil {
		t.Fatal(err)
	}
	own, lost, err := ToOwnTCT(p)
	if err != nil || !bytes.Equal(own.Payload, payload) || !slices.Contains(lost, "hash by another method") {
		t.Errorf("%s, lost %q, %v", own.Payload, lost, err)
	}
	if own, lost, err = ToOwnTCT(own); err != nil || !bytes.Equal(own.Payload, payload) || len(lost) != 0 {
		t.Errorf("done again: %s, lost %q, %v", own.Payload, lost, err)
	}
}

// FuzzFromPayload: whatever a store holds makes a page that can be written as TCT and
// read again under the same URL and its own hash, or an error.
func FuzzFromPayload(f *testing.F) {
	for format, payload := range payloads(f) {
		f.Add(uint8(format), pageURL, payload)
	}
	f.Fuzz(func(t *testing.T, format uint8, url string, payload []byte) {
		p, err := FromPayload(content.Format(format), url, payload, noon)
		if err != nil {
			return
		}
		if p.URL != url || p.Modified.IsZero() || !bytes.Equal(p.Payload, payload) && content.Format(format) != content.FormatSCP {
			t.Fatalf("%+v", p)
		}
		own, _, err := ToOwnTCT(p)
		if err != nil {
			return
		}
		d, err := tct.Decode(own.Payload)
		if err != nil || d.URL != url || d.Hash != tct.FormatHash(own.Fingerprint) {
			t.Errorf("as TCT: %q, %v", own.Payload, err)
		}
		line, _, err := ToSCP(p)
		if err != nil {
			return
		}
		if back, err := scp.ParsePage(line); err != nil || back.URL != url {
			t.Errorf("as SCP: %q, %v", line, err)
		}
	})
}

func TestWhatAConversionLosesIsSaid(t *testing.T) {
	p, err := FromPayload(content.FormatTCT, pageURL, payloads(t)[content.FormatTCT], noon)
	if err != nil {
		t.Fatal(err)
	}
	p.Description = "What it is."
	if _, lost, err := ToTCT(p); err != nil || !slices.Equal(lost, []string{"description"}) {
		t.Errorf("as TCT: lost %q, %v", lost, err)
	}
	p.Language = "not a language"
	if _, lost, err := ToSCP(p); err != nil || !slices.ContainsFunc(lost, func(l string) bool { return strings.Contains(l, "not a language") }) {
		t.Errorf("as SCP: lost %q, %v", lost, err)
	}
}
