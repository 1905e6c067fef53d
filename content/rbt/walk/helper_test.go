package walk

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A site serves what it is given, by https on this machine.
type site struct {
	t      *testing.T
	server *httptest.Server
	base   string // URL of its /

	filesMu sync.Mutex
	files   map[string][]byte // by path and query; nil: 404
	asked   []string
	before  func(w http.ResponseWriter, r *http.Request) bool // whether it has answered
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, files: make(map[string][]byte)}
	s.server = httptest.NewUnstartedServer(s)
	s.server.Config.ErrorLog = nil
	s.server.StartTLS()
	t.Cleanup(s.server.Close)
	s.base = s.server.URL + "/"
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.RequestURI(), "/")
	s.filesMu.Lock()
	data, ok := s.files[name]
	before := s.before
	s.asked = append(s.asked, name)
	s.filesMu.Unlock()
	if before != nil && before(w, r) {
		return
	}
	if !ok {
		http.NotFound(w, r)
		return
	}
	etag := fmt.Sprintf(`"%x"`, sha256.Sum256(data))
	w.Header().Set("ETag", etag)
	if r.Header.Get("If-None-Match") == etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write(data)
}

func (s *site) put(name string, data string) {
	s.filesMu.Lock()
	defer s.filesMu.Unlock()
	s.files[name] = []byte(data)
}

// requests are the names that were asked for, without robots.txt, since the last
// call.
func (s *site) requests() []string {
	s.filesMu.Lock()
	defer s.filesMu.Unlock()
	asked := slices.DeleteFunc(s.asked, func(name string) bool { return name == "robots.txt" })
	s.asked = nil
	return asked
}

func (s *site) root() rbt.Root { return rbt.Root{HTTPS: &rbt.HTTPSRoot{Base: s.base}} }

// client may ask the sites, and waits for nothing but their answers.
func client(t *testing.T, sites ...*site) *fetch.Client {
	t.Helper()
	c := fetch.Config{UserAgent: "test", Rate: 10_000, Retries: 3, Sleep: noSleep}
	for _, s := range sites {
		c.Allowed = append(c.Allowed, s.server.URL)
		c.RootCAs = s.server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs // all httptest servers have one certificate
	}
	made, err := fetch.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(made.Close)
	return made
}

func noSleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// at is a walk that begins at the sites' roots.
func at(t *testing.T, sites ...*site) Config {
	t.Helper()
	c := Config{Client: client(t, sites...), Sleep: noSleep}
	for _, s := range sites {
		c.Start.Roots = append(c.Start.Roots, s.root())
	}
	return c
}

func file(id, href, text string) rbt.Entry {
	sum := sha256.Sum256([]byte(text))
	return rbt.Entry{ID: id, RID: rbt.SumRID(sum), Href: href, Type: "text/markdown", Rel: []string{rbt.RelItem}, Hash: &sum, Size: int64(len(text))}
}

func collection(id, href string) rbt.Entry {
	return rbt.Entry{
		ID: id, RID: rbt.CollectionRID(rbt.FileRID(nil), id), Href: href, Type: rbt.DirectoryType, Rel: []string{rbt.RelCollection}, Size: -1,
		Children: &rbt.Children{Href: href, Limit: 100, Total: -1},
	}
}

func document(roots []rbt.Root, entries ...rbt.Entry) *rbt.Manifest {
	return &rbt.Manifest{Title: "Test", Updated: time.Date(2025, 1, 15, 12, 0, 0, 0, time.UTC), Roots: roots, Entries: entries}
}

func marshal(t *testing.T, m *rbt.Manifest) string {
	t.Helper()
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// plain writes a bare page of entries, whatever they are.
func plain(entries ...string) string { return `{"entries":[` + strings.Join(entries, ",") + `]}` }

// leads writes an entry that is only a collection, with a made-up RID.
func leads(id, href string) string {
	return fmt.Sprintf(`{"id":%q,"rid":"urn:rabit:collection:%016d:%s","href":%q,"type":"application/x-directory","rel":["collection"],"children":{"href":%q,"offset":0,"limit":10}}`, id, 0, id, href, href)
}

// small is a site of a manifest, two files, and a third in a collection.
func small(t *testing.T) *site {
	t.Helper()
	s := newSite(t)
	s.put("a.md", "A")
	s.put("b.md", "B")
	s.put("docs/c.md", "C")
	s.put("docs/.burrow.json", marshal(t, document([]rbt.Root{s.root()}, file("c", "c.md", "C"))))
	s.put(".burrow.json", marshal(t, document([]rbt.Root{s.root()}, file("a", "a.md", "A"), collection("docs", "docs/.burrow.json"), file("b", "b.md", "B"))))
	return s
}

func mustOpen(t *testing.T, c Config) *Walk {
	t.Helper()
	w, err := Open(t.Context(), c)
	t.Cleanup(func() { w.Close() })
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// all walks to the end. Entries that failed have their category in place of
// their octets.
func all(t *testing.T, w *Walk) (order []string, texts map[string]string) {
	t.Helper()
	texts = make(map[string]string)
	for item, err := range w.Items(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		order = append(order, item.Entry.ID)
		text := string(item.Data)
		if item.Err != nil {
			text = string(rbt.CategoryOf(item.Err))
		}
		texts[item.Document+" "+item.Entry.ID] = text
	}
	return order, texts
}

func checkTexts(t *testing.T, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("entries are %q, want %q", got, want)
	}
}

// problems names the categories of a report's problems, with the entries.
func problems(r rbt.Report) (all []string) {
	for _, p := range r.Problems {
		all = append(all, fmt.Sprint(p.Category, " ", p.EntryID))
	}
	return all
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
