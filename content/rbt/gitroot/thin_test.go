package gitroot

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

const longText = 3000 // octets of a page, of which an edit changes few

// edit commits one octet more at the end of a page, and has the server send the
// page as a delta of a blob, which is not in the pack.
func (o *origin) edit(base plumbing.Hash, old string) (content string) {
	content = old + "!"
	tip := o.commit(map[string]string{"a.md": content})
	// To copy from 0, so much (0xb0, and a length of two octets); and to insert 1.
	patch := delta(uint64(len(old)), uint64(len(content)), 0xb0, byte(len(old)&0xff), byte(len(old)>>8), 1, '!')
	var objects []packObject
	need := make(map[plumbing.Hash]bool)
	o.reach(plumbing.Hash(tip), need, false)
	for h := range need {
		found, err := o.store.EncodedObject(plumbing.AnyObject, h)
		if err != nil {
			o.t.Fatal(err)
		}
		data, err := readAll(found)
		if err != nil {
			o.t.Fatal(err)
		}
		if found.Type() == plumbing.BlobObject {
			objects = append(objects, packObject{plumbing.REFDeltaObject, -1, append(base[:], patch...), 0})
			continue
		}
		objects = append(objects, packObject{found.Type(), -1, data, 0})
	}
	o.spoil = func([]byte) []byte { return handmade(len(objects), objects...) }
	return content
}

// newEdited holds one page, and has a server that knows thin packs.
func newEdited(t *testing.T) (*origin, *Repository, string) {
	t.Helper()
	o := newOrigin(t)
	o.abilities = append(o.abilities, capability.ThinPack)
	text := strings.Repeat("w", longText)
	o.commit(map[string]string{"a.md": text})
	r, c := serve(t, o, Limits{})
	repo := open(t, c, r)
	mustFetch(t, repo, main)
	return o, repo, text
}

func TestAThinPackIsCompleted(t *testing.T) {
	o, repo, text := newEdited(t)
	for range 3 { // the second delta starts from what the first one made
		text = o.edit(plumbing.ComputeHash(plumbing.BlobObject, []byte(text)), text)
		if got := contents(t, mustFetch(t, repo, main)); !maps.Equal(got, map[string]string{"a.md": text}) {
			t.Fatalf("files are %q", got)
		}
	}
	if n := len(o.requests()); n != 4 {
		t.Errorf("%d requests for four commits: what was sent was not enough", n)
	}
	again, err := repo.client.Open(repo.dir, repo.remote)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	if got := contents(t, mustFetch(t, again, main)); got["a.md"] != text || len(o.requests()) != 4 {
		t.Errorf("taken up again, files are %q", got)
	}
}

func TestADeltaOfWhatIsNotHeldIsRefused(t *testing.T) {
	o, repo, text := newEdited(t)
	o.edit(plumbing.NewHash(strings.Repeat("ab", 20)), text)
	if _, err := repo.Fetch(t.Context(), main); !errors.Is(err, ErrProtocol) {
		t.Errorf("Fetch = %v, want %v", err, ErrProtocol)
	}
	if n := len(o.requests()); n != 3 {
		t.Errorf("%d requests; after the first, one more with nothing held", n)
	}
}

func TestWhatCompletesAPackIsBounded(t *testing.T) {
	for name, limit := range map[string]func(*Limits){
		"the pack":             func(l *Limits) { l.Pack = 250 }, // the page packs to some 30 octets
		"all objects together": func(l *Limits) { l.Inflated = 2*longText - 1 },
		"one object":           func(l *Limits) { l.Object = longText - 1 },
	} {
		t.Run(name, func(t *testing.T) {
			o, repo, text := newEdited(t)
			o.edit(plumbing.ComputeHash(plumbing.BlobObject, []byte(text)), text)
			limit(&repo.limits)
			if _, err := repo.Fetch(t.Context(), main); !errors.Is(err, ErrTooLarge) {
				t.Errorf("Fetch = %v, want %v", err, ErrTooLarge)
			}
		})
	}
}

// Git leaves out what we have only of a thin pack, unless it sends what lies between.
func TestACommitIsAskedForAloneAndThin(t *testing.T) {
	o := newOrigin(t)
	o.abilities = append(o.abilities, capability.ThinPack)
	repoAt, c := serve(t, o, Limits{})
	repo := open(t, c, repoAt)
	for i := range 3 {
		o.commit(map[string]string{"a.md": fmt.Sprint("A", i)})
		mustFetch(t, repo, main)
	}
	// One that is asked for by name may have nothing to do with what is held.
	o.store, o.refs = memory.NewStorage(), map[string]plumbing.Hash{}
	other := o.commit(map[string]string{"other.md": "other"})
	mustFetch(t, repo, rbt.Ref(other.String()))
	var asked []string
	for _, q := range o.requests() {
		asked = append(asked, fmt.Sprintf("depth %v, %d held, thin %v", q.Depth, len(q.Haves), q.Capabilities.Supports(capability.ThinPack)))
	}
	want := []string{"depth 1, 0 held, thin false", "depth 1, 1 held, thin true", "depth 1, 2 held, thin true", "depth 1, 3 held, thin true"}
	if !slices.Equal(asked, want) {
		t.Errorf("requests are %q, want %q", asked, want)
	}
}
