package exported

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

var noon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// A maker is an indexer that exports: version after version of three files.
type maker struct {
	t     testing.TB
	dir   string
	local *identity.Local
}

func newMaker(t testing.TB) *maker {
	t.Helper()
	local, err := identity.Create(t.TempDir(), identity.Options{
		Identity: "spiffe://search.example/indexer", Role: identity.Indexer, Now: noon.Add(-time.Hour), Endpoint: "search.example:7443", LogURL: "https://log.search.example",
	})
	check(t, err)
	return &maker{t, filepath.Join(t.TempDir(), "out"), local}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// put replaces one file of a successor.
func put(t testing.TB, f *Folder, name, text string) {
	t.Helper()
	path := filepath.Join(f.Dir, name)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path+".tmp", []byte(text), 0o644))
	check(t, os.Rename(path+".tmp", path))
}

// steps are those in which a version is made; what is between two of them is one call.
func (m *maker) steps(version int) []func(f *Folder) error {
	return []func(f *Folder) error{
		func(f *Folder) error {
			put(m.t, f, "data/c/page", fmt.Sprintf("version %d\n", version))
			put(m.t, f, "data/c/same", "always the same\n")
			put(m.t, f, "pages/c.jsonl", fmt.Sprintf("{\"url\":\"https://example.com/%d\"}\n{\"url\":\"https://example.com/b\"}\n", version))
			return nil
		},
		m.sign,
		(*Folder).Ready,
		(*Folder).Exchange,
		(*Folder).Finish,
	}
}

// sign writes sums and manifest.
func (m *maker) sign(f *Folder) error {
	sums, files, err := WriteSums(f.Dir)
	if err != nil {
		return err
	}
	pages, err := PagesOf(f.Dir)
	if err != nil {
		return err
	}
	body := &translog.Export{
		Format: "tct", Purpose: "search.index", LogOrigin: "log.search.example", Indexer: m.local.Name(), Sums: sums, Files: files, Pages: pages,
		Until: envelope.At(noon.Add(2 * time.Hour)), Grants: []envelope.Hash{{1}}, Policies: []envelope.Hash{{2}},
		Checkpoint: translog.CheckpointRef{ObjectID: envelope.Hash{3}, Root: envelope.Hash{4}, Size: 1},
	}
	o, err := envelope.Sign(envelope.Header{
		Type: envelope.Export, Authority: m.local.Name().Authority(), Subject: m.local.Name(), Epoch: m.local.Epoch(envelope.UseEnvelope),
		Sequence: uint64(noon.Unix()), IssuedAt: noon, NotBefore: noon, ExpiresAt: noon.Add(time.Hour),
	}, body, m.local.Envelope)
	if err != nil {
		return err
	}
	put(m.t, f, ManifestFile, string(o.Raw)+"\n")
	return nil
}

// export makes one version.
func (m *maker) export(version int) {
	m.t.Helper()
	f, err := Begin(m.dir)
	check(m.t, err)
	for _, step := range m.steps(version) {
		check(m.t, step(f))
	}
}

func (m *maker) verify() *Report { return Verify(m.dir, []*identity.Card{m.local.Card}, noon) }

// version reads which version is in place, and that it is whole.
func (m *maker) version() (n int) {
	m.t.Helper()
	if r := m.verify(); r.Verdict != "signed" {
		m.t.Fatalf("%s: %q", r.Verdict, r.Reasons)
	}
	raw, err := os.ReadFile(filepath.Join(m.dir, "data/c/page"))
	check(m.t, err)
	if _, err := fmt.Sscanf(string(raw), "version %d\n", &n); err != nil {
		m.t.Fatal(err)
	}
	return n
}
