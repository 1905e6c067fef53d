package rbt_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"
)

// A plainManifest is read by what the text says and nothing of this package.
type plainManifest struct {
	Manifest struct{ RID string }
	Entries  []struct {
		ID, RID, Href, Hash string
		Children            *struct{ Href string }
	}
}

func sha(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// plainRID is that of a manifest, canonical by a library that others wrote.
func plainRID(t *testing.T, data string) string {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(data), &doc); err != nil {
		t.Fatal(err)
	}
	delete(doc["manifest"].(map[string]any), "rid")
	for _, e := range doc["entries"].([]any) {
		if e := e.(map[string]any); strings.HasPrefix(e["rid"].(string), "urn:rabit:collection:") {
			e["rid"] = ""
		}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = jcs.Transform(b); err != nil {
		t.Fatal(err)
	}
	return "urn:rabit:sha256:" + sha(b)
}

// secondWalk returns how many resources a burrow lists, and what is not as it is
// named.
func secondWalk(t *testing.T, files map[string]string, name string) (listed int, wrong []string) {
	t.Helper()
	var m plainManifest
	if err := json.Unmarshal([]byte(files[name]), &m); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if own := plainRID(t, files[name]); own != m.Manifest.RID {
		wrong = append(wrong, name+" is "+own)
	}
	for _, e := range m.Entries {
		octets, there := files[e.Href]
		own := sha([]byte(octets))
		if !there || e.Hash != "sha256:"+own {
			wrong = append(wrong, e.Href+" by its hash")
		}
		want := "urn:rabit:sha256:" + own
		if e.Children != nil {
			digits := strings.TrimPrefix(m.Manifest.RID, "urn:rabit:sha256:")[:16]
			want = fmt.Sprintf("urn:rabit:collection:%s:%s", digits, e.ID)
		}
		if e.RID != want {
			wrong = append(wrong, e.Href+" is "+want+", not "+e.RID)
		}
		if e.Children == nil {
			listed++
			continue
		}
		n, below := secondWalk(t, files, e.Children.Href)
		listed, wrong = listed+n, append(wrong, below...)
	}
	return listed, wrong
}

func TestEachRIDAndHashHoldsInASecondWalk(t *testing.T) {
	dir := t.TempDir()
	export(t, config(t, dir), resource("a.md", "one"), resource("d/b.md", "two"), resource("d/c.md", "three"), resource("e.md", "four"), resource("f.md", ""))
	files := tree(t, dir)
	if n, wrong := secondWalk(t, files, ".burrow.json"); n != 5 || len(wrong) > 0 {
		t.Errorf("%d resources; wrong are %q", n, wrong)
	}
	files["d/c.md"] = "another"
	if _, wrong := secondWalk(t, files, ".burrow.json"); len(wrong) != 2 {
		t.Errorf("with another file, wrong are %q", wrong)
	}
}
