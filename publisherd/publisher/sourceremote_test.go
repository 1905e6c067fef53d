package publisher

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// A webCase is a folder of pages, its export as a server hands it out, and the
// journal of a source that reads that server.
type webCase struct {
	*scanCase
	server  *httptest.Server
	out     string
	format  content.Format
	source  Source
	reader  reader
	kept    content.Preferences
	exports int

	// asked is guarded by askedMu.
	askedMu sync.Mutex
	asked   []string // path and status of each answer
}

// newWebCase has a server answer with what serve makes; nil serves the export.
func newWebCase(t *testing.T, format content.Format, serve http.Handler) *webCase {
	c := &webCase{scanCase: newScanCase(t), out: t.TempDir(), format: format}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := &noted{ResponseWriter: w, status: 200}
		if serve != nil {
			serve.ServeHTTP(a, r)
		} else {
			c.serve(a, r)
		}
		c.askedMu.Lock()
		defer c.askedMu.Unlock()
		c.asked = append(c.asked, fmt.Sprint(r.URL.Path, " ", a.status))
	}))
	t.Cleanup(c.server.Close)
	c.source = Source{Name: "site", Kind: format.String(), Remote: Remote{Rate: maxRate, IgnoreRobots: true}}
	c.source.Location = c.server.URL + map[content.Format]string{content.FormatTCT: "/llm-sitemap.json", content.FormatSCP: "/sitemap.xml"}[format]
	return c
}

// A noted answer is one whose status is noted. What it says of its lifetime is
// taken out, so that each round asks.
type noted struct {
	http.ResponseWriter
	status int
}

func (n *noted) WriteHeader(status int) {
	n.status = status
	n.Header().Del("Cache-Control")
	n.ResponseWriter.WriteHeader(status)
}

func (c *webCase) serve(w http.ResponseWriter, r *http.Request) {
	if c.format == content.FormatSCP {
		root, err := os.OpenRoot(c.out)
		if err != nil {
			c.t.Error(err)
			return
		}
		defer root.Close()
		scp.Handler(root, "daily").ServeHTTP(w, r)
		return
	}
	tree, err := tct.OpenTree(c.out, tct.Mapping{Base: c.server.URL + "/"})
	if err != nil {
		c.t.Error(err)
		return
	}
	defer tree.Close()
	h := tree.Handler()
	h.Clear = func(*http.Request) bool { return true }
	h.ServeHTTP(w, r)
}

func (c *webCase) export() ExportReport {
	c.t.Helper()
	s := Source{Name: "from", Kind: "site", Location: c.dir, BaseURL: c.server.URL + "/", StripExt: true}
	c.exports++
	r, err := s.Export(c.t.Context(), c.dir, ExportOptions{
		Format: c.format.String(), Dir: c.out, Section: "docs", Generated: time.Now().Add(time.Duration(c.exports-1) * time.Second),
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func (c *webCase) remote() *scanner {
	c.t.Helper()
	if c.reader == nil {
		r, err := c.source.reader(c.out, c.t.TempDir())
		if err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { closeReader(r) })
		c.reader = r
	}
	s := c.scanner()
	s.source, s.extractor = c.reader, c.reader.Extraction()
	s.keep = func(p content.Preferences) error {
		c.kept = p
		return nil
	}
	return s
}

// round scans, and returns what the server was asked.
func (c *webCase) round() (ScanReport, []string) {
	c.t.Helper()
	r, err := c.remote().run(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return r, c.requests()
}

func (c *webCase) requests() []string {
	c.askedMu.Lock()
	defer c.askedMu.Unlock()
	asked := c.asked
	c.asked = nil
	return asked
}

func TestARoundWithoutAChangeAsksForTheSitemapAlone(t *testing.T) {
	c := newWebCase(t, content.FormatTCT, nil)
	for _, name := range []string{"index.html", "a.html", "b.html"} {
		c.write(name, "words of "+name)
	}
	c.export()
	r, asked := c.round()
	c.wants("the first round", r, 3, 3, 0, 3)
	if len(asked) != 4 {
		t.Errorf("the first round asked %q", asked)
	}
	before := c.rows()
	r, asked = c.round()
	c.wants("a round without a change", r, 3, 0, 0, 3)
	if !r.Unchanged || len(asked) != 1 || asked[0] != "/llm-sitemap.json 304" || c.rows() != before {
		t.Errorf("without a change: unchanged %v, asked %q, rows are the same: %v", r.Unchanged, asked, c.rows() == before)
	}
	c.write("a.html", "other words")
	c.export()
	r, asked = c.round()
	c.wants("with an edit", r, 3, 1, 0, 4)
	if len(asked) != 2 || asked[1] != "/a.llm.json 200" {
		t.Errorf("with an edit, asked %q", asked)
	}
	c.remove("b.html")
	c.export()
	r, asked = c.round()
	c.wants("with a deletion", r, 2, 0, 1, 5)
	if len(asked) != 1 {
		t.Errorf("with a deletion, asked %q", asked)
	}
}

// A scan that ended between its first commit and its end, and a page that a
// session found changed, must not be covered up by a 304.
func TestAnInterruptedScanFetchesTheSitemapAgain(t *testing.T) {
	c := newWebCase(t, content.FormatTCT, nil)
	c.write("index.html", "one")
	c.write("a.html", "one")
	c.export()
	c.round()

	c.write("a.html", "two")
	c.export()
	s := c.remote()
	snapshot, err := c.j.store.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer snapshot.Close()
	known := func(location string) ([32]byte, bool) { return s.known(snapshot, location, false) }
	pages, err := s.readPages(t.Context(), snapshot, known, false)
	if err != nil {
		t.Fatal(err)
	}
	s.skipped = map[string]bool{}
	for p, err := range pages {
		if err != nil {
			t.Fatal(err)
		}
		if err := s.take(p, located{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.flush(); err != nil { // and here the machine stops
		t.Fatal(err)
	}
	c.reader = nil
	c.write("a.html", "one")
	c.export()
	c.requests()
	if r, asked := c.round(); r.Unchanged || r.Changed != 1 || len(asked) != 2 {
		t.Errorf("behind an interruption: %+v, asked %q", r, asked)
	}

	row := c.j.mustPage(t, c.server.URL+"/a")
	if err := c.j.again(urlHash(row.URL), nil, testNow); err != nil {
		t.Fatal(err)
	}
	if r, asked := c.round(); r.Unchanged || len(asked) != 2 {
		t.Errorf("behind a page that a session could not read: %+v, asked %q", r, asked)
	}
	if r, _ := c.round(); !r.Unchanged {
		t.Errorf("then: %+v", r)
	}
	s = c.remote()
	s.now = func() time.Time { return testNow.Add(recheck) }
	if r, err := s.run(t.Context()); err != nil || r.Unchanged {
		t.Errorf("a day later: %+v, %v", r, err)
	}
}

func TestABrokenSitemapDeletesNothing(t *testing.T) {
	for _, format := range []content.Format{content.FormatTCT, content.FormatSCP} {
		t.Run(format.String(), func(t *testing.T) {
			c := newWebCase(t, format, nil)
			c.write("index.html", "one")
			c.write("a.html", "two")
			c.export()
			c.round()
			before := c.rows()
			file := filepath.Join(c.out, map[content.Format]string{content.FormatTCT: "llm-sitemap.json", content.FormatSCP: "sitemap.xml"}[format])
			whole, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			os.Remove(file + ".gz")
			for name, text := range map[string][]byte{"cut short": whole[:len(whole)/2], "empty": {}, "of another kind": []byte("<html>gone</html>")} {
				later := time.Now().Add(time.Hour)
				if err := errors.Join(os.WriteFile(file, text, 0o644), os.Chtimes(file, later, later)); err != nil {
					t.Fatal(err)
				}
				r, err := c.remote().run(t.Context())
				if told := err != nil || len(r.Skipped) > 0; !told || r.Deleted > 0 || c.rows() != before {
					t.Errorf("a sitemap that is %s: %+v, %v", name, r, err)
				}
			}
		})
	}
}

func TestASnapshotIsFollowedByItsDeltaAlone(t *testing.T) {
	c := newWebCase(t, content.FormatSCP, nil)
	c.write("index.html", "one")
	c.write("a.html", "two")
	snapshot := c.export()
	r, asked := c.round()
	c.wants("the first round", r, 2, 2, 0, 2)
	if row := c.j.mustPage(t, c.server.URL+"/a"); row.Format != uint8(content.FormatSCP) {
		t.Errorf("format %d", row.Format)
	}
	if len(asked) != 2 || asked[1] != "/"+snapshot.File+" 200" {
		t.Errorf("the first round asked %q", asked)
	}
	before := c.rows()
	r, asked = c.round()
	c.wants("a round without a change", r, 2, 0, 0, 2)
	if len(asked) != 1 || asked[0] != "/sitemap.xml 304" || c.rows() != before {
		t.Errorf("without a change: asked %q", asked)
	}
	c.write("a.html", "other words")
	delta := c.export()
	r, asked = c.round()
	if r.Changed != 1 || delta.Type != "delta" || len(asked) != 2 || asked[1] != "/"+delta.File+" 200" {
		t.Errorf("behind an edit: %+v by a %s, asked %q", r, delta.Type, asked)
	}
}

func TestAddressesThatNobodyNamedAreRefused(t *testing.T) {
	hits := 0
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer secret.Close()
	c := newWebCase(t, content.FormatTCT, http.RedirectHandler(secret.URL+"/llm-sitemap.json", http.StatusFound))
	_, err := c.remote().run(t.Context())
	if !errors.Is(err, fetch.ErrForbiddenAddress) || hits > 0 {
		t.Errorf("a redirect to this machine: %v, %d requests", err, hits)
	}
	c.source.AllowOrigins, c.reader = []string{secret.URL}, nil
	if c.remote().run(t.Context()); hits == 0 {
		t.Error("an origin that was named is refused")
	}
	c.source.AllowOrigins, c.source.Location, c.reader = nil, "http://10.255.255.1/llm-sitemap.json", nil
	if _, err := c.remote().run(t.Context()); !errors.Is(err, fetch.ErrForbiddenAddress) {
		t.Errorf("a location in a private network that was not named: %v", err)
	}
}

func TestAServerThatAsksToBeLeftAloneIs(t *testing.T) {
	c := newWebCase(t, content.FormatTCT, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	var rs readers
	defer rs.close()
	for range 3 {
		r, err := rs.lookup(c.dir, c.source)
		if err != nil {
			t.Fatal(err)
		}
		c.reader = r
		var status *fetch.StatusError
		if _, err := c.remote().run(t.Context()); !errors.As(err, &status) {
			t.Errorf("error %v", err)
		}
	}
	if asked := c.requests(); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
}
