package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/scp"
)

// host is whose pages they are.
const host = "docs.test"

// pageSize is what a page's line takes, in octets, or a little more.
const pageSize = 5000

// writeCollection writes an SCP collection of so many pages, the same each time:
// words as often as those of a language, so that they shrink to about a third.
func writeCollection(path string, pages int) (err error) {
	w, err := scp.NewWriter(scp.Collection{
		ID: "bench", Section: "all", Type: scp.Snapshot, Generated: time.Now().Add(-time.Minute).Truncate(time.Second), Version: scp.Version,
	}, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer w.Close()
	a := newAuthor()
	for i := range pages {
		line, err := a.page(i)
		if err == nil {
			err = w.Add(line)
		}
		if err != nil {
			return err
		}
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, _, err = w.Finish(f, scp.Packing{Compression: scp.Zstd})
	return errors.Join(err, f.Close())
}

// An author writes pages out of a vocabulary.
type author struct {
	words  []string
	choose *rand.Zipf
}

func newAuthor() *author {
	r := rand.New(rand.NewPCG(5, 8))
	a := &author{choose: rand.NewZipf(r, 1.15, 4, 19_999)}
	for range 20_000 {
		var b strings.Builder
		for range 1 + r.IntN(4) {
			b.WriteByte("bcdfghklmnprstvw"[r.IntN(16)])
			b.WriteByte("aeiou"[r.IntN(5)])
		}
		a.words = append(a.words, b.String())
	}
	return a
}

func (a *author) sentence(octets int) string {
	var b strings.Builder
	for b.Len() < octets {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(a.words[a.choose.Uint64()])
	}
	return b.String()
}

// page is the line of the i-th page.
func (a *author) page(i int) ([]byte, error) {
	type block struct {
		Type  string `json:"type"`
		Level int    `json:"level,omitempty"`
		Text  string `json:"text"`
	}
	p := struct {
		URL         string  `json:"url"`
		Title       string  `json:"title"`
		Description string  `json:"description"`
		Modified    string  `json:"modified"`
		Language    string  `json:"language"`
		Content     []block `json:"content"`
	}{
		URL: fmt.Sprintf("https://%s/d%03d/p%07d.html", host, i%311, i), Title: a.sentence(40), Description: a.sentence(120),
		Modified: "2026-02-03T04:05:06Z", Language: "en", Content: []block{{Type: "heading", Level: 1, Text: a.sentence(40)}},
	}
	for size := 400; size < pageSize; size += 600 {
		p.Content = append(p.Content, block{Type: "text", Text: a.sentence(570)})
	}
	return json.Marshal(p)
}
