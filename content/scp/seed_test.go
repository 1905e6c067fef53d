package scp

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// seed reads an example as the text prints it.
func seed(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "seed", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// compacted puts an example that is printed over several lines on one.
func compacted(t testing.TB, b []byte) []byte {
	t.Helper()
	v := jsontext.Value(bytes.Clone(b))
	if err := v.Compact(); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestEveryExampleOfTheText(t *testing.T) {
	verified := func(b []byte) error {
		_, err := Verify(bytes.NewReader(b), Options{})
		return err
	}
	page := func(b []byte) error {
		_, err := ParsePage(b)
		return err
	}
	block := func(b []byte) error {
		if u, ok := readBlock(b).(*Unknown); ok {
			return errors.New(u.Why)
		}
		return nil
	}
	sitemap := func(b []byte) error {
		_, err := ReadSitemap(bytes.NewReader(b))
		return err
	}
	wrapped := func(b []byte) error {
		return sitemap([]byte(`<urlset xmlns="` + sitemapNamespace + `" xmlns:scp="` + Namespace + `">` + string(b) + `</urlset>`))
	}
	compact := func(b []byte) []byte { return compacted(t, b) }
	without := func(cut string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.Replace(b, []byte(cut), nil, 1) }
	}
	for _, tt := range []struct {
		name, file string
		change     func([]byte) []byte
		read       func([]byte) error
		refused    string // part of the reason; "" if it is read
	}{
		{"metadata over several lines is no JSON Lines", "meta-snapshot.json", nil, verified, "line 1"},
		{"its checksum is that of nothing at all, and so of no file", "meta-snapshot.json", compact, verified, "checksum"},
		{"the delta's is that of a password", "meta-delta.json", compact, verified, "checksum"},
		{"a page", "page.json", nil, page, ""},
		{"the product's content is elided", "page-product.json", nil, page, "invalid character '.'"},
		{"and with content it is read", "page-product.json", func(b []byte) []byte { return bytes.Replace(b, []byte("..."), nil, 1) }, page, ""},
		{"text", "block-text.json", nil, block, ""},
		{"heading", "block-heading.json", nil, block, ""},
		{"link", "block-link.json", nil, block, ""},
		{"image", "block-image.json", nil, block, ""},
		{"list", "block-list.json", nil, block, ""},
		{"code", "block-code.json", nil, block, ""},
		{"table", "block-table.json", nil, block, ""},
		{"quote", "block-quote.json", nil, block, ""},
		{"video", "block-video.json", nil, block, ""},
		{"audio", "block-audio.json", nil, block, ""},
		{"the sitemap", "sitemap.xml", nil, sitemap, ""},
		{"an element by itself binds no prefix", "element-collection.xml", nil, sitemap, "the root"},
		{"a delta's does not either", "element-delta.xml", nil, sitemap, "the root"},
		{"inside of a urlset it is read", "element-collection.xml", nil, wrapped, ""},
		{"and so is the delta", "element-delta.xml", nil, wrapped, ""},
		{"the usage with a schema's location", "usage.xml", nil, sitemap, ""},
		{"a schema is no sitemap", "appendix-a.xsd", nil, sitemap, "the root"},
		{"example 1 prints the checksum of another text", "example1.scp", nil, verified, "checksum"},
		{"without its checksum it is read", "example1.scp",
			without(`"checksum":"sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",`), verified, ""},
		{"example 2, the snapshot", "example2-snapshot.scp", nil, verified, ""},
		{"example 2, the delta", "example2-delta.scp", nil, verified, ""},
		{"example 3 prints a checksum that is cut off", "example3.scp", nil, verified, "checksum"},
		{"and without it, lines that are elided", "example3.scp", without(`"checksum":"sha256:f7d8e9a1b2c3d4e5...",`), verified, "line 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := seed(t, tt.file)
			if tt.change != nil {
				b = tt.change(b)
			}
			err := tt.read(b)
			if (err != nil) != (tt.refused != "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
				t.Errorf("error %v, want one with %q", err, tt.refused)
			}
		})
	}
}

func TestAppendixAIsUnchanged(t *testing.T) {
	own, err := os.ReadFile("schema/sitemap-extension.xsd")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(own), "<!--")
	_, after, _ := strings.Cut(rest, "-->\n")
	if before+after != string(seed(t, "appendix-a.xsd")) {
		t.Error("the schema differs from the text's in more than the comment at its head")
	}
}

// The values are those of an implementation in another language, over the
// example with its checksum member and one comma cut out.
const (
	example1Sum   = "e517d38d3cada7003197e01b40eaa914d4e72c681de09879c54ab916b433c949"
	example1SumLF = "75d10963"
)

func TestTheChecksumLeavesItselfOut(t *testing.T) {
	printed := "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
	text := bytes.TrimRight(seed(t, "example1.scp"), "\n")
	bare := bytes.Replace(text, []byte(`,"checksum":"sha256:`+printed+`"`), nil, 1)
	withLF := sha256.Sum256(append(bytes.Clone(bare), '\n'))
	if got := hex.EncodeToString(withLF[:]); !strings.HasPrefix(got, example1SumLF) || !strings.HasSuffix(got, "1d4f9") {
		t.Fatalf("with a line feed %s", got)
	}
	fill := func(sum string) []byte { return bytes.Replace(text, []byte(printed), []byte(sum), 1) }
	last := strings.Replace(string(fill(example1Sum)), `"checksum":"sha256:`+example1Sum+`","version":"0.1"`, `"version":"0.1","checksum":"sha256:`+example1Sum+`"`, 1)
	first := strings.Replace(string(bare), `{"id"`, `{"checksum":"sha256:`+example1Sum+`","id"`, 1)
	for _, tt := range []struct {
		name string
		file []byte
		want error
	}{
		{"in the middle of its object", fill(example1Sum), nil},
		{"last of its object", []byte(last), nil},
		{"first of its object", []byte(first), nil},
		{"in upper case", fill(strings.ToUpper(example1Sum)), nil},
		{"the file ends with a line feed that is not counted", append(fill(example1Sum), '\n'), nil},
		{"the file ends with one that is", append(fill(hex.EncodeToString(withLF[:])), '\n'), nil},
		{"one is counted that is not there", fill(hex.EncodeToString(withLF[:])), nil},
		{"a second line feed is content", append(fill(example1Sum), "\n\n"...), ErrChecksum},
		{"one octet of the last line is another", bytes.Replace(fill(example1Sum), []byte("We are a company"), []byte("We are a Company"), 1), ErrChecksum},
		{"one octet of the metadata is another", bytes.Replace(fill(example1Sum), []byte("example-minimal"), []byte("example-Minimal"), 1), ErrChecksum},
		{"a space beside the member counts", bytes.Replace(fill(example1Sum), []byte(`,"version"`), []byte(`, "version"`), 1), ErrChecksum},
		{"the printed one", text, ErrChecksum},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Verify(bytes.NewReader(tt.file), Options{})
			if !errors.Is(err, tt.want) || err != nil && !errors.Is(err, ErrRejected) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
}

func TestTheExampleOfDeltaApplication(t *testing.T) {
	layers := []*layer{layerOf(t, seed(t, "example2-snapshot.scp")), layerOf(t, seed(t, "example2-delta.scp"))}
	var titles []string
	for f, err := range fold(layers) {
		if err != nil {
			t.Fatal(err)
		}
		p, err := f.layer.read(&f.entry)
		if err != nil {
			t.Fatal(err)
		}
		titles = append(titles, p.Title)
	}
	if got := strings.Join(titles, ", "); got != "First Post, Second Post (Updated), Third Post" {
		t.Errorf("the index holds %s", got)
	}
}
