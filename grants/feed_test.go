package grants_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// listOf is the list of items in their order.
func listOf(items ...string) *grants.List {
	l := new(grants.List)
	for _, it := range items {
		l.Add([]byte(it))
	}
	return l
}

// rootOf is MTH of RFC 6962, 2.1, as it stands there.
func rootOf(items []string) [32]byte {
	switch n := len(items); n {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return sha256.Sum256(append([]byte{0}, items[0]...))
	default:
		k := 1
		for 2*k < n {
			k *= 2
		}
		left, right := rootOf(items[:k]), rootOf(items[k:])
		return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:]))
	}
}

func signFeed(t testing.TB, l grants.Listed, sequence uint64) *grants.Feed {
	t.Helper()
	f, err := grants.SignFeed(l, "docs-1", publisher, grants.Stamp{Indexer: indexer, Epoch: 1, Sequence: sequence, At: noon}, signerOf(t, publisher))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var items = rapid.SliceOfNDistinct(rapid.StringN(1, 12, 40), 1, 40, rapid.ID[string])

func TestListIsTheTreeOfRFC6962(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := items.Draw(t, "items")
		if got := listOf(all...).Listed(); got.Root != rootOf(all) || got.Count != uint64(len(all)) {
			t.Fatalf("%d items have root %s, want %x", len(all), got.Root, rootOf(all))
		}
	})
	if got := new(grants.List).Listed(); got.Root != rootOf(nil) || got.Count != 0 {
		t.Errorf("the empty list is %+v", got)
	}
}

// TestOnlyMembersArePathed has lists and paths drawn that have to do with one
// another in every way but the right one.
func TestOnlyMembersArePathed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := items.Draw(t, "items")
		l := listOf(all...)
		named := l.Listed()
		n := rapid.IntRange(0, len(all)-1).Draw(t, "member")
		index, path, ok := l.Path([]byte(all[n]))
		if !ok || index != uint64(n) {
			t.Fatalf("item %d is number %d of the list (%t)", n, index, ok)
		}
		refused := func(what string, l grants.Listed, item string, index uint64, path [][32]byte) {
			if err := l.Holds([]byte(item), index, path); grants.ReasonOf(err) != grants.ErrScope {
				t.Fatalf("%s: %v", what, err)
			}
		}
		if err := named.Holds([]byte(all[n]), index, path); err != nil {
			t.Fatal(err)
		}
		stranger := rapid.String().Filter(func(s string) bool { return !slices.Contains(all, s) }).Draw(t, "stranger")
		if _, _, ok := l.Path([]byte(stranger)); ok {
			t.Fatalf("%q is found in the list", stranger)
		}
		refused("the path of one item for a stranger", named, stranger, index, path)
		if len(all) > 1 {
			other := all[(n+1)%len(all)]
			refused("the path of one item for another", named, other, index, path)
			refused("no path", named, all[n], index, nil)
			refused("the number of another item", named, all[n], uint64((n+1)%len(all)), path)
			cut := rapid.IntRange(0, len(path)-1).Draw(t, "cut")
			refused("a path without one of its hashes", named, all[n], index, slices.Concat(path[:cut], path[cut+1:]))
			spoilt := slices.Clone(path)
			spoilt[cut][rapid.IntRange(0, 31).Draw(t, "octet")] ^= 1
			refused("a path with another hash", named, all[n], index, spoilt)
		}
		refused("a path with a hash too many", named, all[n], index, append(slices.Clone(path), [32]byte{}))
		refused("a number beyond the list", named, all[n], named.Count, path)

		longer := listOf(append(slices.Clone(all), stranger)...)
		li, lp, _ := longer.Path([]byte(all[n]))
		refused("the path of a longer list", named, all[n], li, lp)
		_, lp, _ = longer.Path([]byte(stranger))
		refused("a page that only the longer list holds", named, stranger, uint64(len(all)-1), lp)
		shorter := listOf(slices.Concat(all[:n], all[n+1:])...).Listed()
		refused("a page that left the list", shorter, all[n], index, path)
		checkCounts(t, all, named, stranger, path)
	})
}

// checkCounts has the count off by one: that hides an item or nothing, and lets
// neither a stranger nor the two halves of an inner node pass for an item.
func checkCounts(t *rapid.T, all []string, named grants.Listed, stranger string, path [][32]byte) {
	candidates := []string{stranger}
	for i := range all[1:] {
		left, right := sha256.Sum256([]byte("\x00"+all[i])), sha256.Sum256([]byte("\x00"+all[i+1]))
		candidates = append(candidates, string(left[:])+string(right[:]))
	}
	for _, count := range []uint64{named.Count - 1, named.Count, named.Count + 1} {
		off := grants.Listed{Count: count, Root: named.Root}
		for i := range uint64(len(all)) + 2 {
			for _, item := range candidates {
				for from := range len(path) + 1 {
					if err := off.Holds([]byte(item), i, path[from:]); err == nil {
						t.Fatalf("%q is held as number %d of %d, a list of %d", item, i, count, named.Count)
					}
				}
			}
		}
	}
}

func TestPathsAreBounded(t *testing.T) {
	l := listOf("a", "b").Listed()
	wantReason(t, l.Holds([]byte("a"), 0, make([][32]byte, grants.MaxPath)), grants.ErrScope)
	wantReason(t, l.Holds([]byte("a"), 0, make([][32]byte, grants.MaxPath+1)), grants.ErrMalformed)
}

func TestOpenFeedRefuses(t *testing.T) {
	good := signFeed(t, listOf("https://example.com/doc/a").Listed(), 3)
	v := verifier(t)
	if f, err := grants.OpenFeed(good.Object.Raw, v); err != nil || f.Holds("https://example.com/doc/a", 0, nil) != nil {
		t.Fatalf("what was signed: %v", err)
	}
	for _, tt := range []struct {
		name   string
		header func(*envelope.Header)
		body   func(map[string]any)
		view   func(*grants.Verifier)
		want   grants.Reason
	}{
		{name: "a feed of another than the peer", view: func(v *grants.Verifier) { v.Publisher = stranger }, want: grants.ErrIssuer},
		{name: "a feed by an unknown key", view: func(v *grants.Verifier) { v.Keys = keyring{} }, want: grants.ErrSignature},
		{name: "a feed in the name of another", body: func(b map[string]any) { b["issuer"] = stranger }, want: grants.ErrSignature},
		{name: "a feed about another", header: func(h *envelope.Header) { h.Subject = stranger }, want: grants.ErrIssuer},
		{name: "a feed of tomorrow", header: func(h *envelope.Header) { h.IssuedAt = noon.Add(24 * time.Hour) }, want: grants.ErrNotYetValid},
		{name: "a feed that ends by itself", header: func(h *envelope.Header) { h.ExpiresAt = noon.Add(time.Hour) }, want: grants.ErrMalformed},
		{name: "a member that we do not know", body: func(b map[string]any) { b["urls"] = []any{} }, want: grants.ErrMalformed},
		{name: "no count", body: func(b map[string]any) { delete(b, "count") }, want: grants.ErrMalformed},
		{name: "a count of nothing with a root of something", body: func(b map[string]any) { b["count"] = 0 }, want: grants.ErrMalformed},
		{name: "the root of nothing with a count", body: func(b map[string]any) { b["root"] = envelope.Hash(rootOf(nil)).String() }, want: grants.ErrMalformed},
		{name: "no series", body: func(b map[string]any) { b["series"] = "" }, want: grants.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := envelope.Header{Type: envelope.Feed, Authority: publisher.Authority(), Subject: publisher, Epoch: 1, Sequence: 3, IssuedAt: noon}
			if tt.header != nil {
				tt.header(&h)
			}
			b := members(t, &good.Body)
			if tt.body != nil {
				tt.body(b)
			}
			v := v
			if tt.view != nil {
				tt.view(&v)
			}
			_, err := grants.OpenFeed(signed(t, h, b, signerOf(t, publisher)), v)
			wantReason(t, err, tt.want)
		})
	}
	_, err := grants.OpenFeed(issue(t, nil).Grant.Object.Raw, v)
	wantReason(t, err, grants.ErrMalformed)
}

// FuzzOpenFeed opens any octets as they are, and signs any JSON as a feed's
// body: whatever opens is what its own fields would print.
func FuzzOpenFeed(f *testing.F) {
	good := signFeed(f, listOf("https://example.com/doc/a").Listed(), 3)
	f.Add(good.Object.Raw)
	f.Add(good.Object.Body)
	f.Add(bytes.Replace(good.Object.Body, []byte(`"count":1`), []byte(`"count":0`), 1))
	v, key := verifier(f), signerOf(f, publisher)
	h := envelope.Header{Type: envelope.Feed, Authority: publisher.Authority(), Subject: publisher, Epoch: 1, IssuedAt: noon}
	f.Fuzz(func(t *testing.T, data []byte) {
		candidates := [][]byte{data}
		if o, err := envelope.Sign(h, jsontext.Value(data), key); err == nil {
			candidates = append(candidates, o.Raw)
		}
		for _, raw := range candidates {
			stored, readErr := grants.ReadFeed(raw)
			if readErr != nil && grants.ReasonOf(readErr) == "" {
				t.Fatalf("not read back, without a reason: %v", readErr)
			}
			feed, err := grants.OpenFeed(raw, v)
			if err != nil {
				if feed != nil || grants.ReasonOf(err) == "" {
					t.Fatalf("refused without a reason, or not only refused: %v", err)
				}
				continue
			}
			if readErr != nil || stored.Body != feed.Body {
				t.Fatalf("opened, and not read back: %v", readErr)
			}
			body, err := envelope.Canonical(&feed.Body)
			if err != nil || !bytes.Equal(body, feed.Object.Body) || feed.Body.Issuer != publisher {
				t.Fatalf("the body %q would be printed as %q (%v)", feed.Object.Body, body, err)
			}
		}
	})
}

// FuzzPath shows that no path, of whatever length and number, lets an item into
// a list that it is not in.
func FuzzPath(f *testing.F) {
	urls := make([]string, 11)
	for i := range urls {
		urls[i] = fmt.Sprintf("https://example.com/doc/%02d", i)
	}
	l := listOf(urls...)
	named := l.Listed()
	for _, u := range urls {
		i, path, _ := l.Path([]byte(u))
		f.Add(u, i, bytes.Join(slicesOf(path), nil))
	}
	f.Fuzz(func(t *testing.T, item string, index uint64, raw []byte) {
		var path [][32]byte
		for h := range slices.Chunk(raw, 32) {
			path = append(path, [32]byte(append(h, make([]byte, 32-len(h))...)))
		}
		err := named.Holds([]byte(item), index, path)
		if err == nil && (index >= uint64(len(urls)) || urls[index] != item) {
			t.Fatalf("%q is held as number %d", item, index)
		}
		if err != nil && grants.ReasonOf(err) == "" {
			t.Fatalf("refused without a reason: %v", err)
		}
	})
}

func slicesOf(path [][32]byte) [][]byte {
	all := make([][]byte, len(path))
	for i := range path {
		all[i] = path[i][:]
	}
	return all
}

// BenchmarkPath makes, and follows, the paths of a list of a million URLs.
func BenchmarkPath(b *testing.B) {
	l := new(grants.List)
	url := func(i int) []byte { return fmt.Appendf(nil, "https://example.com/doc/%07d.html", i) }
	for i := range 1 << 20 {
		l.Add(url(i))
	}
	begun := time.Now()
	named := l.Listed()
	tree := time.Since(begun)
	i := 0
	for b.Loop() {
		i = (i + 7919) % (1 << 20)
		item := url(i)
		index, path, _ := l.Path(item)
		if err := named.Holds(item, index, path); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(tree.Seconds(), "s/tree")
}
