package scp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// TestLinesAreTakenInTheOrderOfTheFile however they lie in chunks: what is told of
// each, and the line that a file is rejected for, are those of a reading line by line.
func TestLinesAreTakenInTheOrderOfTheFile(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		text := bytes.NewBufferString(goodMeta + "\n")
		var want []Warning
		var pages int64
		broken, n := int64(2+r.IntN(4000)), int64(1)
		for n < broken {
			n++
			switch u := fmt.Sprint(r.IntN(1 << 30)); r.IntN(40) {
			case 0:
				fmt.Fprintln(text, strings.Replace(good(u), `"type":"text"`, `"type":"odd"`, 1))
				want = append(want, Warning{Line: n, Text: `unknown block type "odd"`})
				pages++
			case 1:
				fmt.Fprintln(text, strings.Replace(good(u), "https:", "ftp:", 1))
				want = append(want, Warning{Line: n, Skipped: true})
			case 2:
				fmt.Fprintln(text, strings.Replace(good(u), `"content"`, `"more":"`+strings.Repeat("x", r.IntN(2*chunkOctets))+`","content"`, 1))
				pages++
			default:
				fmt.Fprintln(text, good(u))
				pages++
			}
		}
		whole := slices.Clip(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
		for _, rest := range []string{"", "\n{\n" + good("behind")} {
			var got []Warning
			f, err := Verify(bytes.NewReader(append(whole, rest...)), Options{Warn: func(w Warning) { got = append(got, w) }})
			var at *LineError
			switch {
			case rest == "" && (err != nil || f.Pages != pages):
				t.Fatalf("%v, %+v, want %d pages", err, f, pages)
			case rest != "" && (!errors.As(err, &at) || at.Line != n+1):
				t.Fatalf("error %v, want one of line %d", err, n+1)
			}
			if !slices.EqualFunc(got, want, func(a, b Warning) bool {
				return a.Line == b.Line && a.Skipped == b.Skipped && strings.HasPrefix(a.Text, b.Text)
			}) {
				t.Fatalf("told %v, want %v", got, want)
			}
		}
	}
}

// TestNothingIsReadOnceACollectionIsRejected: whoever gave the file may do with it as
// they like.
func TestNothingIsReadOnceACollectionIsRejected(t *testing.T) {
	var over, late atomic.Bool
	page := good("a") + "\n"
	for _, broken := range []string{"{\n", goodMeta + "\n{\n", goodMeta + "\n" + strings.Repeat(page, 3000) + "{\n"} {
		over.Store(false)
		text := io.MultiReader(strings.NewReader(broken), &repeat{text: page, n: 1 << 40})
		_, err := Verify(readerFunc(func(p []byte) (int, error) {
			if over.Load() {
				late.Store(true)
			}
			return text.Read(p)
		}), Options{})
		over.Store(true)
		if !errors.Is(err, ErrRejected) {
			t.Errorf("error %v", err)
		}
	}
	time.Sleep(20 * time.Millisecond) // for who would read on
	if late.Load() {
		t.Error("it was read on")
	}
}

// TestLongLinesAreAloneInMemory: several of them are not held at once.
func TestLongLinesAreAloneInMemory(t *testing.T) {
	const long = 8 << 20
	page := strings.Replace(good("a"), `"title"`, `"more":"`+strings.Repeat("x", long)+`","title"`, 1) + "\n"
	parts := []io.Reader{strings.NewReader(goodMeta + "\n")}
	for range 8 {
		parts = append(parts, strings.NewReader(good("b")+"\n"), strings.NewReader(page))
	}
	text := io.MultiReader(parts...)
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, uint64(0)
	n := 0
	f, err := Verify(readerFunc(func(p []byte) (int, error) {
		if n++; n%16 == 0 {
			runtime.GC()
			runtime.ReadMemStats(&m)
			peak = max(peak, m.HeapAlloc-min(m.HeapAlloc, before))
		}
		return text.Read(p)
	}), Options{})
	if err != nil || f.Pages != 16 {
		t.Fatal(err, f)
	}
	// One line, the half of it from which it grew, and what stands for white space.
	if peak > 3*long {
		t.Errorf("%d octets held for lines of %d", peak, long)
	}
}

// TestTheFingerprintIsThatOfAWalk over the line: a reading that has noted where members
// stand gives the one that is stored of pages that were read before.
func TestTheFingerprintIsThatOfAWalk(t *testing.T) {
	names := append(slices.Clone(memberNames[:]), "x", "", `a"b`, "ü", "\u2028", "\t", "x\\", "modified ")
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.SampledFrom([]string{"", " ", "\t", "\r", "  "})
		var more strings.Builder
		for range rapid.SampledFrom([]int{0, 1, 3, maxTops + 1}).Draw(t, "members") {
			name, err := jsontext.AppendQuote(nil, rapid.SampledFrom(names[memberCount:]).Draw(t, "name"))
			if err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "escaped") && bytes.HasPrefix(name, []byte(`"x`)) {
				name = append([]byte(`"\u0078`), name[2:]...)
			}
			value := rapid.SampledFrom([]string{`1`, `"x"`, `null`, `{"a":[1, 2 ]}`, `[ ]`, `"\u00fc"`}).Draw(t, "value")
			fmt.Fprint(&more, space.Draw(t, "a"), string(name), space.Draw(t, "b"), ":", space.Draw(t, "c"), value, space.Draw(t, "d"), ",")
		}
		l := []byte(strings.Replace(good("a"), "{", "{"+more.String(), 1))
		w := newWalker()
		if _, err := w.readPage(l, func(string) {}); err != nil {
			t.Fatalf("%s: %v", l, err)
		}
		want, err := newWalker().walkFingerprint(l)
		if got := w.fingerprint(l); err != nil || got != want {
			t.Fatalf("%s: %x, want %x, %v", l, got, want, err)
		}
	})
}
