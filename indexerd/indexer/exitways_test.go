package indexer_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/klauspost/compress/zstd"

	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/export"
	"github.com/uzpif-oi/uzpif-oi/indexerd/gateway"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/exported"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// The random courses of TestAFeedTellsWhatItsPurposeAllows hold these exits, too,
// against the model.
var (
	_ = indexer.AddExit("export as jsonl", exportExit("jsonl"))
	_ = indexer.AddExit("export as scp", exportExit("scp"))
	_ = indexer.AddExit("export as tct, rbt or arc", byTurns("tct", "rbt", "arc"))
	_ = indexer.AddExit("gateway", (&gateways{all: make(map[*indexer.Indexer]*gateway.Gateway)}).exit)

	exports atomic.Int64 // each is a second later than the one before
)

// exportExit exports again and again to one folder for each indexer and reader.
func exportExit(format string) indexer.Exit {
	folders := make(map[string]string)
	return func(t testing.TB, x *indexer.Indexer, purpose grants.Purpose, thirdParty bool) (map[string]bool, bool) {
		key := fmt.Sprintf("%p %s %t", x, purpose, thirdParty)
		if folders[key] == "" {
			folders[key] = filepath.Join(t.TempDir(), "out")
		}
		dir := folders[key]
		r, err := export.Write(t.Context(), x, export.Options{
			Purpose: purpose, ThirdParty: thirdParty, Format: format, Dir: dir,
			Generated: time.Date(2026, 11, 3, 0, 0, 0, 0, time.UTC).Add(time.Duration(exports.Add(1)) * time.Second),
		})
		if errors.Is(err, translog.ErrClock) {
			return nil, false // nothing is signed until the clock is right
		}
		if err != nil {
			t.Fatal(err)
		}
		pages := make(map[string]bool)
		for _, c := range r.Collections {
			err := exported.EachLine(filepath.Join(dir, exported.PagesFolder, c.ID+".jsonl"), func(line []byte) error {
				var p indexer.Page
				err := json.Unmarshal(line, &p)
				pages[indexer.ExitName(p.Publisher, p.URL)] = true
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if format == "jsonl" {
				continue
			}
			told := dataOf(t, format, filepath.Join(dir, exported.DataFolder, c.ID))
			for u := range told {
				if !pages[indexer.ExitName(c.Publisher, u)] {
					t.Errorf("as %s the data holds %s, which may not be read", format, u)
				}
			}
			if len(told) != c.Pages {
				t.Errorf("as %s the data holds %d pages, want %d", format, len(told), c.Pages)
			}
		}
		return pages, true
	}
}

// byTurns exports for one of the three readers of a look at the exits, in one format: in
// nine looks each has had its turn with each.
func byTurns(formats ...string) indexer.Exit {
	all := make([]indexer.Exit, len(formats))
	for i, f := range formats {
		all[i] = exportExit(f)
	}
	const readers = 3
	asked := -1
	return func(t testing.TB, x *indexer.Indexer, purpose grants.Purpose, thirdParty bool) (map[string]bool, bool) {
		asked++
		look := asked / readers
		if (asked+look)%readers != 0 {
			return nil, false
		}
		return all[look/readers%len(all)](t, x, purpose, thirdParty)
	}
}

// linesOf reads the URLs of a collection of SCP.
func linesOf(t testing.TB, raw []byte) (urls []string) {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range bytes.Split(plain, []byte{'\n'}) {
		if i == 0 {
			continue
		}
		p, err := scp.ParsePage(line)
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, p.URL)
	}
	return urls
}

// gateways keeps one for each indexer, with what it keeps between requests.
type gateways struct {
	all map[*indexer.Indexer]*gateway.Gateway
}

const mirror = "https://mirror.example/"

func (g *gateways) exit(t testing.TB, x *indexer.Indexer, purpose grants.Purpose, thirdParty bool) (map[string]bool, bool) {
	if !thirdParty {
		return nil, false
	}
	h := g.all[x]
	if h == nil {
		h = gateway.New(gateway.Config{Indexer: x, Purpose: purpose, URL: mirror, Log: slog.New(slog.DiscardHandler)})
		g.all[x] = h
	}
	pages := make(map[string]bool)
	status, index := fetch(h, "/llm-sitemap.json")
	if status == 404 {
		return pages, true
	}
	var children []string
	readSitemap(t, index, tct.Visitor{Child: func(c tct.Child) error { children = append(children, c.URL); return nil }})
	publishers := publishersOf(t, x, purpose)
	for _, child := range children {
		id, _, _ := strings.Cut(strings.TrimPrefix(child, mirror), "/")
		_, sitemap := fetch(h, "/"+strings.TrimPrefix(child, mirror))
		n := 0
		readSitemap(t, sitemap, tct.Visitor{Item: func(i tct.Item) error {
			n++
			status, payload := fetch(h, "/"+strings.TrimPrefix(i.MURL, mirror))
			d, err := tct.Decode(payload)
			if status != 200 || err != nil || d.URL != i.CURL || d.Hash != i.Hash {
				t.Errorf("%s: %d, %v, %+v", i.MURL, status, err, d)
			}
			if want := fmt.Sprintf("u-%x.json", sha256.Sum256([]byte(i.CURL))); !strings.HasSuffix(i.MURL, want) {
				t.Errorf("%s stands for %s", i.MURL, i.CURL)
			}
			pages[publishers[id]+" "+i.CURL] = true
			return nil
		}})
		if n == 0 {
			continue
		}
		status, snapshot := fetch(h, "/"+id+"/"+id+"-snapshot.scp.zst")
		if urls := linesOf(t, snapshot); status != 200 || len(urls) != n {
			t.Errorf("the snapshot of %s: %d, %d pages, want %d", id, status, len(urls), n)
		}
	}
	return pages, true
}

func publishersOf(t testing.TB, x *indexer.Indexer, purpose grants.Purpose) map[string]string {
	t.Helper()
	r, err := x.Reading(purpose, true)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	all, err := r.Offers()
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for i := range all {
		names[export.ID(&all[i])] = string(all[i].Publisher)
	}
	return names
}

func fetch(h *gateway.Gateway, path string) (int, []byte) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	return w.Code, w.Body.Bytes()
}

func readSitemap(t testing.TB, raw []byte, v tct.Visitor) {
	t.Helper()
	if _, err := tct.ReadSitemap(bytes.NewReader(raw), tct.Limits{}, v); err != nil {
		t.Fatal(err)
	}
}
