package scp

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"
)

// compile reads one of our own schemas.
func compile(t testing.TB, path string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t testing.TB, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// write makes a whole file.
func write(t testing.TB, c Collection, p Packing, lines ...[]byte) []byte {
	t.Helper()
	w, err := NewWriter(c, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for _, l := range lines {
		if err := w.Add(l); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if _, n, err := w.Finish(&out, p); err != nil || n != int64(out.Len()) {
		t.Fatalf("%d of %d octets, %v", n, out.Len(), err)
	}
	return out.Bytes()
}

func TestWhatIsWrittenIsReadAndValid(t *testing.T) {
	meta, page := compile(t, "schema/collection.json"), compile(t, "schema/page.json")
	video := readBlock(seed(t, "block-video.json"))
	blocks := []Block{
		&Text{"T <b>&\u2028"}, &Heading{6, "H"}, &Link{"https://example.com/l", "L", []string{"nofollow"}},
		&Image{"https://example.com/i.png", ""}, &List{true, nil}, &List{Items: []string{"a", ""}}, &Code{"", "x\n\ty"},
		&Code{"go", ""}, &Table{[][]string{{"a"}, {}, nil}}, &Quote{"Q", ""}, &Quote{"Q", "C"}, video,
		&Audio{Media: Media{Name: "A", URL: URLs{One: "https://example.com/a.mp3"}}, AttributedTo: "B"},
		&Video{Media: Media{URL: URLs{One: "https://example.com/v"}, Chapters: []Chapter{{0, ""}}}, Width: new(int64)},
	}
	p := Page{
		URL: "https://example.com/a?b=c", Title: "Tïtle\n", Author: "A", Published: noon, Modified: noon.Add(time.Nanosecond),
		Language: "zh-Hans-CN", Canonical: "https://example.com/a",
	}
	line, err := AppendPage(nil, &p, blocks)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(t, page, line); err != nil {
		t.Errorf("page line: %v", err)
	}
	for _, c := range []Collection{snapshot(noon), delta(noon.Add(-time.Hour), noon)} {
		for _, packing := range []Packing{{}, {Gzip, 0}, {Gzip, 9}, {Zstd, 0}, {Zstd, 19}} {
			f := open(t, write(t, c, packing, line), Options{Warn: func(w Warning) { t.Errorf("warning %v", w) }})
			got := f.Collection
			if err := validate(t, meta, got.appendLine(nil, got.Checksum)); err != nil {
				t.Errorf("metadata: %v", err)
			}
			got.Checksum, got.Version = "", ""
			if got != c || f.Compression != packing.Compression {
				t.Errorf("metadata %+v of %v, want %+v", got, f.Compression, c)
			}
			for r, err := range f.Each() {
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(r.Line, line) || r.Title != p.Title || !r.Modified.Equal(p.Modified) || r.Language != p.Language || r.Canonical != p.Canonical {
					t.Errorf("page %+v", r)
				}
				back, warnings := r.Blocks()
				again, err := AppendPage(nil, &r, back)
				if err != nil || !bytes.Equal(again, line) || len(warnings) > 0 {
					t.Errorf("read and written again:\n%s\nwant\n%s\n%v %q", again, line, err, warnings)
				}
			}
		}
	}
}

func TestAnEmptyDeltaIsItsMetadata(t *testing.T) {
	b := write(t, delta(noon.Add(-time.Hour), noon), Packing{})
	f := open(t, b, Options{})
	if f.Pages != 0 || bytes.Count(b, []byte("\n")) != 0 || f.Collection.Type != Delta {
		t.Errorf("%q", b)
	}
}

func TestWriterIsDeterministic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var lines [][]byte
		for i, s := range rapid.SliceOfN(rapid.String(), 0, 20).Draw(rt, "texts") {
			lines = append(lines, mustLine(t, fmt.Sprintf("https://example.com/%d", i), s))
		}
		p := Packing{rapid.SampledFrom([]Compression{Plain, Gzip, Zstd}).Draw(rt, "compression"), 0}
		one, two := write(t, snapshot(noon), p, lines...), write(t, snapshot(noon), p, lines...)
		if !bytes.Equal(one, two) {
			rt.Fatalf("two files of the same lines differ")
		}
		f, err := Verify(bytes.NewReader(one), Options{})
		if err != nil || f.Pages != int64(len(lines)) {
			rt.Fatalf("%d pages, %v", f.Pages, err)
		}
	})
}

func mustLine(t testing.TB, url, text string) []byte {
	t.Helper()
	b, err := AppendPage(nil, &Page{URL: url, Title: text, Language: "en", Modified: noon}, []Block{&Text{text}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheChecksumIsThatOfThePlainOctets(t *testing.T) {
	line := line("https://example.com/", "Words", noon)
	plain := write(t, snapshot(noon), Packing{}, line)
	f := open(t, plain, Options{})
	bare := bytes.Replace(plain, []byte(`,"checksum":"`+f.Collection.Checksum+`"`), nil, 1)
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(bare)); f.Collection.Checksum != want {
		t.Errorf("checksum %s, want %s", f.Collection.Checksum, want)
	}
	for _, c := range []Compression{Gzip, Zstd} {
		if got := open(t, write(t, snapshot(noon), Packing{Compression: c}, line), Options{}).Collection.Checksum; got != f.Collection.Checksum {
			t.Errorf("by %s the checksum is %s", c.Coding(), got)
		}
	}
}

func TestOtherToolsUnpackWhatIsWritten(t *testing.T) {
	dir := t.TempDir()
	want := write(t, snapshot(noon), Packing{}, line("https://example.com/", "Words", noon))
	path := filepath.Join(dir, "a.scp.gz")
	if err := os.WriteFile(path, write(t, snapshot(noon), Packing{Compression: Gzip}, line("https://example.com/", "Words", noon)), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := exec.CommandContext(t.Context(), "gzip", "-dc", path).Output()
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("gzip gives %q, %v", got, err)
	}
}

func TestWhatMustNotBeWritten(t *testing.T) {
	page := Page{URL: "https://example.com/", Title: "T", Language: "en", Modified: noon}
	with := func(change func(*Page)) *Page {
		p := page
		change(&p)
		return &p
	}
	text := []Block{&Text{"x"}}
	long := int64(-1)
	for _, tt := range []struct {
		name   string
		page   *Page
		blocks []Block
	}{
		{"a URL that is not canonical", with(func(p *Page) { p.URL = "https://example.com" }), text},
		{"a language that is none", with(func(p *Page) { p.Language = "English" }), text},
		{"a language that the schema's pattern refuses", with(func(p *Page) { p.Language = "x-foo" }), text},
		{"no time", with(func(p *Page) { p.Modified = time.Time{} }), text},
		{"no block", &page, nil},
		{"1,001 blocks", &page, make([]Block, MaxBlocks+1)},
		{"broken UTF-8", with(func(p *Page) { p.Title = "\xFF" }), text},
		{"broken UTF-8 in a block", &page, []Block{&Text{"\xFF"}}},
		{"a heading of level 0", &page, []Block{&Heading{0, "x"}}},
		{"a link that runs a script", &page, []Block{&Link{"JavaScript:alert(1)", "x", nil}}},
		{"a link that runs a script, in disguise", &page, []Block{&Link{"java\tscript:alert(1)", "x", nil}}},
		{"an image of data", &page, []Block{&Image{"data:image/png;base64,AA==", ""}}},
		{"a link to nowhere", &page, []Block{&Link{"", "x", nil}}},
		{"a video without a URL", &page, []Block{&Video{}}},
		{"a video of negative width", &page, []Block{&Video{Media: Media{URL: URLs{One: "https://example.com/v"}}, Width: &long}}},
		{"a duration of days", &page, []Block{&Audio{Media: Media{URL: URLs{One: "https://example.com/a"}, Duration: "P1D"}}}},
		{"a duration of nothing", &page, []Block{&Audio{Media: Media{URL: URLs{One: "https://example.com/a"}, Duration: "PT"}}}},
		{"an unknown block that is no object", &page, []Block{&Unknown{Raw: []byte(`"x"`)}}},
		{"an unknown block over two lines", &page, []Block{&Unknown{Raw: []byte("{\n}")}}},
	} {
		if got, err := AppendPage([]byte("kept"), tt.page, tt.blocks); err == nil || string(got) != "kept" {
			t.Errorf("%s: %q, %v", tt.name, got, err)
		}
	}
	for _, c := range []Collection{
		{}, {ID: "a b", Section: "all", Type: Snapshot, Generated: noon}, {ID: "a", Section: "../x", Type: Snapshot, Generated: noon},
		{ID: "a", Section: "all", Type: "full", Generated: noon}, {ID: "a", Section: "all", Type: Snapshot}, {ID: "a", Section: "all", Type: Delta, Generated: noon},
	} {
		if _, err := NewWriter(c, t.TempDir()); err == nil {
			t.Errorf("%+v is written", c)
		}
	}
	w, err := NewWriter(snapshot(noon), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Add([]byte(`{"url":"https://example.com/"}`)); err == nil || w.Pages != 0 {
		t.Error("a line without a title is written")
	}
}

func TestNobodyIsSentABomb(t *testing.T) {
	w, err := NewWriter(snapshot(noon), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for i := range 40 {
		if err := w.Add(mustLine(t, fmt.Sprintf("https://example.com/%d", i), strings.Repeat("a", 100_000))); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := w.Finish(&bytes.Buffer{}, Packing{Compression: Zstd}); !errors.Is(err, ErrLimit) {
		t.Errorf("error %v, want a limit", err)
	}
	var out bytes.Buffer
	if _, _, err := w.Finish(&out, Packing{}); err != nil {
		t.Errorf("plain: %v", err)
	}
	open(t, out.Bytes(), Options{})
}

func TestTheTextsOwnSchemaCannotBeCompiledHere(t *testing.T) {
	// Its pattern for durations looks ahead, which RE2 does not; ours says the
	// same by a least length.
	if _, err := jsonschema.NewCompiler().Compile("testdata/seed/schema-page.json"); err == nil || !strings.Contains(err.Error(), "duration") {
		t.Errorf("error %v", err)
	}
	meta := compile(t, "testdata/seed/schema-collection.json")
	own := compile(t, "schema/collection.json")
	line := []byte(goodMeta)
	if err := validate(t, meta, line); err != nil {
		t.Errorf("by the text's schema: %v", err)
	}
	if err := validate(t, own, line); err == nil {
		t.Error("our own files always have a checksum, and our schema asks for none")
	}
	var page map[string]any
	if err := json.Unmarshal(seed(t, "page.json"), &page); err != nil {
		t.Fatal(err)
	}
	if err := compile(t, "schema/page.json").Validate(any(page)); err != nil {
		t.Errorf("the text's page by our schema: %v", err)
	}
}
