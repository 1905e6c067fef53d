package house

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

const (
	pebble   = "github.com/cockroachdb/pebble"
	wireRoot = "proto"
)

// layers says, for each part of the tree, which other parts its packages may
// import; a part is a folder and all below it, and may always import itself.
// Folders of internal/ that are not named here are helpers: anyone may use
// one, but a helper passes on what it imports, as if its user had done so.
var layers = map[string][]string{
	"envelope":          {},
	"proto":             {},
	"internal/durable":  {"envelope"},
	"internal/identity": {"envelope", "internal/durable"},
	"grants":            {"envelope", "internal/durable"},
	"translog":          {"envelope", "internal/durable"},
	"content":           {"envelope", "internal/durable"},
	"internal/evaluate": {"envelope", "grants", "translog", "content", "internal/identity"},
	"feed":              {"envelope", "proto", "internal/identity"},
	"publisherd":        underCommands,
	"indexerd":          underCommands,
	"auditor":           underCommands,
}

var (
	commands      = []string{"publisherd", "indexerd", "auditor"}
	underCommands = []string{
		"envelope", "proto", "grants", "translog", "content",
		"internal/durable", "internal/identity", "internal/evaluate",
	}
	// inTests is what tests may import besides: a store to test upon.
	inTests = []string{"internal/durable"}
	// meeting is where all parts are run together; its tests may import any, and
	// so may pairing: what sets them up for tests, and what one of them has to
	// withstand. Both are helpers otherwise: whoever imports one imports all.
	meeting = "internal/e2e"
	pairing = []string{"internal/e2e/pair", "internal/e2e/liar"}
	// edgeFiles begin the names of the files that may know the wire's types.
	edgeFiles = []string{"session", "public", "wire", "server"}
)

// within reports whether the import or folder name is dir or lies below it.
func within(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, dir+"/")
}

// layerOf is the part of the tree that a folder belongs to; "" for a helper.
func layerOf(dir string) string {
	for layer := range layers {
		if within(dir, layer) {
			return layer
		}
	}
	return ""
}

// A graph is what each package imports of ours, without its tests.
type graph map[string][]string

func graphOf(t *tree) graph {
	packages := t.packages()
	g := make(graph)
	for dir, sources := range packages {
		g[dir] = nil
		for _, s := range sources {
			if s.test {
				continue
			}
			for _, imported := range s.imports {
				if _, ours := packages[imported]; ours && !slices.Contains(g[dir], imported) {
					g[dir] = append(g[dir], imported)
				}
			}
		}
		slices.Sort(g[dir])
	}
	return g
}

// reach is the layered packages that importing name brings in: itself, or, if
// it is a helper, those that it imports, each with the way that leads there.
func (g graph) reach(name string, seen map[string]bool) map[string]string {
	if layerOf(name) != "" {
		return map[string]string{name: name}
	}
	found := make(map[string]string)
	if seen[name] {
		return found
	}
	seen[name] = true
	for _, next := range g[name] {
		for target, way := range g.reach(next, seen) {
			found[target] = name + " → " + way
		}
	}
	return found
}

// wrongWay finds imports that run against the layers.
func wrongWay(t *tree) []string {
	g := graphOf(t)
	var found []string
	for _, s := range t.sources {
		if s.nested {
			continue
		}
		layer := layerOf(s.dir())
		if layer == "" && !within(s.dir(), "internal") {
			found = append(found, fmt.Sprintf("%s: %q is no part of the layout; give it a place in layers", s.path, s.dir()))
			continue
		}
		if s.test && within(s.dir(), meeting) || slices.Contains(pairing, s.dir()) {
			continue
		}
		for _, imported := range s.imports {
			if _, ours := g[imported]; !ours {
				continue
			}
			for target, way := range g.reach(imported, map[string]bool{}) {
				if !mayImport(layer, layerOf(target), s.test) {
					found = append(found, fmt.Sprintf("%s: %s must not import %s", s.path, s.dir(), way))
				}
			}
		}
	}
	return found
}

func mayImport(from, to string, inTest bool) bool {
	if from == "" {
		return !slices.Contains(commands, to)
	}
	return from == to || slices.Contains(layers[from], to) || inTest && slices.Contains(inTests, to)
}

// strayEngine finds uses of Pebble outside internal/durable. A test may name
// its file system, to make the disk fail.
func strayEngine(t *tree) []string {
	var found []string
	for _, s := range t.sources {
		if s.nested || within(s.dir(), "internal/durable") {
			continue
		}
		for _, imported := range s.imports {
			if !within(imported, pebble) {
				continue
			}
			if s.test && strings.Contains(imported+"/", "/vfs/") {
				continue
			}
			found = append(found, fmt.Sprintf("%s: only internal/durable may import %s", s.path, imported))
		}
	}
	return found
}

// strayWire finds uses of the wire's types away from the network's edge.
func strayWire(t *tree) []string {
	var found []string
	for _, s := range t.sources {
		if s.nested || s.test || within(s.dir(), wireRoot) {
			continue
		}
		atEdge := slices.ContainsFunc(edgeFiles, func(prefix string) bool {
			return strings.HasPrefix(path.Base(s.path), prefix)
		})
		for _, imported := range s.imports {
			if within(imported, wireRoot) && !atEdge {
				found = append(found, fmt.Sprintf("%s: only files named %s*.go may import %s",
					s.path, strings.Join(edgeFiles, "*.go, "), imported))
			}
		}
	}
	return found
}

func TestDependenciesRunOneWay(t *testing.T) {
	our := ourTree(t)
	for _, rule := range []func(*tree) []string{wrongWay, strayEngine, strayWire} {
		for _, broken := range rule(our) {
			t.Error(broken)
		}
	}
}

// importing is a file of the given package that imports each path; ours begin with ~.
func importing(name string, paths ...string) string {
	text := "package " + name + "\n"
	for _, p := range paths {
		text += fmt.Sprintf("import _ %q\n", strings.Replace(p, "~", modulePath, 1))
	}
	return text
}

// sound is a made-up tree with every part of the layout in its right place.
func sound() map[string]string {
	return map[string]string{
		"envelope/envelope.go":             importing("envelope", "fmt"),
		"proto/uzpif/oi/v1/session.pb.go":  importing("oiv1"),
		"internal/durable/store.go":        importing("durable", pebble+"/v2"),
		"internal/identity/card.go":        importing("identity", "~/envelope"),
		"internal/clock/clock.go":          importing("clock"),
		"internal/listing/listing.go":      importing("listing", "~/grants"),
		"grants/grant.go":                  importing("grants", "~/envelope", "~/internal/clock"),
		"translog/log.go":                  importing("translog", "~/envelope", "~/internal/durable"),
		"translog/crash_test.go":           importing("translog", pebble+"/v2/vfs", pebble+"/v2/vfs/errorfs"),
		"content/page.go":                  importing("content", "~/envelope"),
		"content/site/site.go":             importing("site", "~/content"),
		"internal/evaluate/receipt.go":     importing("evaluate", "~/grants", "~/translog", "~/content"),
		"publisherd/main.go":               importing("main", "~/publisherd/publisher", "~/internal/listing"),
		"publisherd/publisher/journal.go":  importing("publisher", "~/internal/evaluate", "~/internal/durable"),
		"publisherd/publisher/session.go":  importing("publisher", "~/proto/uzpif/oi/v1"),
		"publisherd/publisher/any_test.go": importing("publisher", "~/proto/uzpif/oi/v1"),
		"indexerd/main.go":                 importing("main", "~/indexerd/indexer"),
		"indexerd/indexer/public_tiles.go": importing("indexer", "~/proto/uzpif/oi/v1", "~/translog"),
		"auditor/main.go":                  importing("main", "~/internal/evaluate"),
		"internal/e2e/pair_test.go":        importing("e2e", "~/publisherd/publisher", "~/indexerd/indexer"),
		"testdata/thirdparty/a_test.go":    importing("thirdparty", "~/translog", pebble),
	}
}

func TestEachImportRuleIsCaught(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rule  func(*tree) []string
		path  string
		adds  string
		wants string // part of the one complaint; "" for none
	}{
		{"the sound tree follows the layers", wrongWay, "", "", ""},
		{"the sound tree keeps the engine in its place", strayEngine, "", "", ""},
		{"the sound tree keeps the wire at the edge", strayWire, "", "", ""},

		{"the envelope knows nobody", wrongWay, "envelope/a.go", importing("envelope", "~/grants"), "envelope must not import grants"},
		{"the envelope does not know the store", wrongWay, "envelope/a.go", importing("envelope", "~/internal/durable"), "must not import internal/durable"},
		{"grants do not know the log", wrongWay, "grants/a.go", importing("grants", "~/translog"), "grants must not import translog"},
		{"grants do not know content", wrongWay, "grants/a.go", importing("grants", "~/content/site"), "must not import content/site"},
		{"the log does not know grants", wrongWay, "translog/a.go", importing("translog", "~/grants"), "translog must not import grants"},
		{"content does not know the log", wrongWay, "content/site/a.go", importing("site", "~/translog"), "content/site must not import translog"},
		{"a test of content does not know the log either", wrongWay, "content/a_test.go", importing("content", "~/translog"), "must not import translog"},
		{"a test may open a store", wrongWay, "content/a_test.go", importing("content", "~/internal/durable"), ""},
		{"a helper does not hide what it imports", wrongWay, "content/a.go", importing("content", "~/internal/listing"), "internal/listing → grants"},
		{"evaluation does not know who evaluates", wrongWay, "internal/evaluate/a.go", importing("evaluate", "~/publisherd/publisher"), "must not import publisherd/publisher"},
		{"evaluation does not know the wire", wrongWay, "internal/evaluate/session.go", importing("evaluate", "~/proto/uzpif/oi/v1"), "must not import proto"},
		{"the publisher does not know the indexer", wrongWay, "publisherd/publisher/a.go", importing("publisher", "~/indexerd/indexer"), "must not import indexerd/indexer"},
		{"the indexer does not know the publisher", wrongWay, "indexerd/indexer/a.go", importing("indexer", "~/publisherd/publisher"), "must not import publisherd/publisher"},
		{"a test of the indexer does not know the publisher either", wrongWay, "indexerd/indexer/a_test.go", importing("indexer", "~/publisherd/publisher"), "must not import publisherd/publisher"},
		{"the auditor does not know the indexer", wrongWay, "auditor/a.go", importing("main", "~/indexerd/indexer"), "must not import indexerd/indexer"},
		{"a helper does not know the programs", wrongWay, "internal/other/a.go", importing("other", "~/publisherd/publisher"), "internal/other must not import publisherd/publisher"},
		{"outside its tests, the meeting place has no licence", wrongWay, "internal/e2e/a.go", importing("e2e", "~/indexerd/indexer"), "must not import indexerd/indexer"},
		{"a folder outside the layout is noticed", wrongWay, "common/a.go", importing("common"), "no part of the layout"},

		{"the log does not touch the engine", strayEngine, "translog/a.go", importing("translog", pebble+"/v2"), "translog/a.go: only internal/durable"},
		{"no test opens the engine behind the store's back", strayEngine, "translog/a_test.go", importing("translog", pebble+"/v2"), "translog/a_test.go: only internal/durable"},
		{"only tests name the engine's file system", strayEngine, "translog/a.go", importing("translog", pebble+"/v2/vfs"), "only internal/durable"},

		{"the journal does not know the wire", strayWire, "publisherd/publisher/outbox.go", importing("publisher", "~/proto/uzpif/oi/v1"), "publisherd/publisher/outbox.go: only files named session*.go"},
		{"a main does not know the wire", strayWire, "indexerd/serve.go", importing("main", "~/proto/uzpif/oi/v1"), "indexerd/serve.go: only files named"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := sound()
			if tt.path != "" {
				files[tt.path] = tt.adds
			}
			checkOne(t, tt.rule(madeUp(t, files)), tt.wants)
		})
	}
}
