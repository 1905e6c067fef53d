package translog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// sha and mac spell the hashes of this file out, without the package's own.
func sha(parts ...[]byte) []byte {
	h := sha256.Sum256(slices.Concat(parts...))
	return h[:]
}

func mac(key []byte, parts ...[]byte) []byte {
	d := hmac.New(sha256.New, key)
	d.Write(slices.Concat(parts...))
	return d.Sum(nil)
}

func u64(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// setKey is 00 01 02 … 1f.
func setKey() (k LeafKey) {
	for i := range k {
		k[i] = byte(i)
	}
	return k
}

// mth is the definition of section 2.1 of RFC 6962, word for word.
func mth(leafHashes [][32]byte) []byte {
	switch n := len(leafHashes); n {
	case 0:
		return sha()
	case 1:
		return leafHashes[0][:]
	default:
		p := 1
		for 2*p < n {
			p *= 2
		}
		return sha([]byte{1}, mth(leafHashes[:p]), mth(leafHashes[p:]))
	}
}

// auditPath is the definition of section 2.1.1 of RFC 6962.
func auditPath(leafHashes [][32]byte, m int) (path [][]byte) {
	n := len(leafHashes)
	if n <= 1 {
		return nil
	}
	p := 1
	for 2*p < n {
		p *= 2
	}
	if m < p {
		return append(auditPath(leafHashes[:p], m), mth(leafHashes[p:]))
	}
	return append(auditPath(leafHashes[p:], m-p), mth(leafHashes[:p]))
}

// setLeaves makes n different leaves, every third a tombstone.
func setLeaves(n int) (leaves []Leaf, hashes [][32]byte) {
	k := setKey()
	for i := range n {
		op := OpPut
		if i%3 == 2 {
			op = OpTombstone
		}
		l := k.Leaf(op, 7, uint64(i+1), fmt.Sprintf("https://example.com/%d", i), sha256.Sum256([]byte{byte(i)}))
		leaves, hashes = append(leaves, l), append(hashes, l.Hash())
	}
	return leaves, hashes
}

// The vectors were made with hashlib and hmac of Python from the profile's
// text; the second value of each row is made here from the same text.
func TestLeafVectors(t *testing.T) {
	k := setKey()
	const url, je, rev = "https://example.com/docs/a", 7, 42
	urlHash, digest, root := sha256.Sum256([]byte(url)), sha256.Sum256([]byte("hello\n")), envelope.Hash(sha256.Sum256([]byte("a root")))
	su, sc := k.Salts(je, rev, urlHash)
	put, tomb := k.Leaf(OpPut, je, rev, url, digest), k.Leaf(OpTombstone, je, rev, url, digest)
	commit, ref, state := k.Commit(), k.CollectionRef("docs"), k.StateCommitment(je, rev, root)
	putHash, tombHash := put.Hash(), tomb.Hash()
	rel := RelationshipName([32]byte(slices.Repeat([]byte{9}, 32)), "spiffe://example.com/publisher")
	relHash, err := hex.DecodeString(strings.TrimPrefix(string(rel), "urn:uzpif-oi:rel:"))
	if err != nil {
		t.Fatal(err)
	}

	wantSu := mac(k[:], []byte("uzpif-oi/leaf-salt/v1\x00u"), u64(je), u64(rev), urlHash[:])
	wantSc := mac(k[:], []byte("uzpif-oi/leaf-salt/v1\x00c"), u64(je), u64(rev), urlHash[:])
	object := sha([]byte("uzpif-oi/object/v1\x00"), wantSu, []byte(url))
	content := sha([]byte("uzpif-oi/content/v1\x00"), wantSc, digest[:])
	for _, tt := range []struct {
		name      string
		got, want []byte
		vector    string
	}{
		{"leaf_key_commit", commit[:], sha([]byte("uzpif-oi/leaf-key/v1\x00"), k[:]), "6c2f42258762059545f9d2789ca4e9ba00afa1751cbda13eaa536d583f34cbfe"},
		{"collection_ref", ref[:], mac(k[:], []byte("uzpif-oi/collection/v1\x00docs")), "c4aac835dde5f790e3fb4a2839766438e0d26f7e09ddbfd92974267a064086a9"},
		{"the URL's salt", su[:], wantSu, "e7759a78ea92474a576417ba55d2b8e3d8c3faa0661060b8fa400a11addb3186"},
		{"the content's salt", sc[:], wantSc, "28c00e46b716271bdd29ab6c71f12eb8ffcfb71af0294e6fc1e7d01dc206251f"},
		{"the octets of a put", put.Bytes(), slices.Concat([]byte{1}, u64(rev), object, content), "01000000000000002a3e9feeef7231b8cf2d8cbb44cfe03659d9b12c9162a32fd678971b5b0ed47dd91854d24ca28391a4da7047ec2174bf65adb5b069bd4ab5a1ffb11291cf528cd7"},
		{"the hash of a put", putHash[:], sha([]byte{0, 1}, u64(rev), object, content), "e167bed3f1afa08a081a5bc5cf5efa177cbccf4b276f3351b4148585de046977"},
		{"the hash of a tombstone", tombHash[:], sha([]byte{0, 2}, u64(rev), object, make([]byte, 32)), "03f7dca4b6962a8d57c346807ee07d713d65dc2dbb53b09499e1be89167d0c50"},
		{"a state commitment", state[:], sha([]byte("uzpif-oi/state-commit/v1\x00"), mac(k[:], []byte("uzpif-oi/state-salt/v1\x00"), u64(je), u64(rev)), root[:]), "5ce1ecbf30f775e3980d72a72a8017598b8309a46f3c5b1a5b5dea0c827b2613"},
		{"a relationship's name", relHash, sha([]byte("uzpif-oi/relationship/v1\x00"), slices.Repeat([]byte{9}, 32), []byte("spiffe://example.com/publisher")), "e534668064c4d2321c4c82cfa684dcc9c0c5dfbfa588ced9c46adfebed36d144"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := hex.EncodeToString(tt.got); got != tt.vector || got != hex.EncodeToString(tt.want) {
				t.Errorf("got %s\nvector %s\nby hand %x", got, tt.vector, tt.want)
			}
		})
	}
	if len(put.Bytes()) != LeafSize {
		t.Errorf("a leaf has %d octets, want %d", len(put.Bytes()), LeafSize)
	}
	if _, err := envelope.ParseName(string(rel)); err != nil {
		t.Error(err)
	}
}

func TestSetRootVectors(t *testing.T) {
	for n, want := range map[int]string{
		0:   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		1:   "709e80c88487a2411e1ee4dfb9f22a861492d20c4765150c0c794abd70f8147c",
		2:   "319dd25400276a78b435a7c0f87afbdc29b3a8029915a385b6b302c932321e31",
		3:   "f1b9f16464b7d5fd3c6907ba171d1e55a9ed16181e0a135f5e55c934c3cbe40a",
		7:   "e99dfbbaa8e26d67fcb87503fb6ae10d2f26e422e2121ab676f630e0595bbb95",
		300: "6323b7440f53f742380c606a0c27e5d4847c818f8b1dc01d1ee71d5a2ac5b467",
	} {
		var hashes [][32]byte
		for i := range n {
			hashes = append(hashes, [32]byte(sha([]byte{0, byte(i >> 8), byte(i)})))
		}
		if s := SetOf(hashes); s.Count != uint64(n) || hex.EncodeToString(s.Root[:]) != want {
			t.Errorf("set of %d: %d, %x, want %s", n, s.Count, s.Root, want)
		}
	}
}

func TestEveryLeafOfASetHasItsPath(t *testing.T) {
	leaves, hashes := setLeaves(300)
	for n := range 301 {
		s := SetOf(hashes[:n])
		if want := mth(hashes[:n]); s.Count != uint64(n) || s.Root != envelope.Hash(want) {
			t.Fatalf("set of %d: %d, %x, want %x", n, s.Count, s.Root, want)
		}
		step := 1
		if n > 40 && n%32 > 1 {
			step = 23 // all leaves of the small sets and around the powers of two
		}
		for i := 0; i < n; i += step {
			path, err := SetPath(hashes[:n], i)
			if err != nil {
				t.Fatal(err)
			}
			if want := auditPath(hashes[:n], i); !slices.EqualFunc(path, want, func(a [32]byte, b []byte) bool { return string(a[:]) == string(b) }) {
				t.Fatalf("path of leaf %d of %d is not that of RFC 6962", i, n)
			}
			if err := VerifySetPath(s, uint64(i), leaves[i], path); err != nil {
				t.Fatalf("leaf %d of %d: %v", i, n, err)
			}
		}
		for _, i := range []int{-1, n, n + 1} {
			if _, err := SetPath(hashes[:n], i); err == nil {
				t.Fatalf("leaf %d of %d has a path", i, n)
			}
		}
	}
}

func TestSetPathsDoNotBend(t *testing.T) {
	allLeaves, allHashes := setLeaves(300)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "size")
		i := rapid.IntRange(0, n-1).Draw(t, "index")
		leaf, index := allLeaves[i], uint64(i)
		s := SetOf(allHashes[:n])
		path, err := SetPath(allHashes[:n], i)
		if err != nil {
			t.Fatal(err)
		}
		bit := byte(1) << rapid.IntRange(0, 7).Draw(t, "bit")
		at := rapid.IntRange(0, 31).Draw(t, "octet")
		changes := []string{"index", "count", "root", "object", "content", "revision", "op", "longer"}
		if len(path) > 0 {
			changes = append(changes, "path", "shorter", "doubled")
		}
		switch rapid.SampledFrom(changes).Draw(t, "change") {
		case "index":
			index = rapid.Uint64().Filter(func(v uint64) bool { return v != index }).Draw(t, "other index")
		case "count": // a root does not bind a larger count: that is signed beside it
			s.Count = rapid.Uint64Range(0, index).Draw(t, "smaller count")
		case "root":
			s.Root[at] ^= bit
		case "object":
			leaf.Object[at] ^= bit
		case "content":
			leaf.Content[at] ^= bit
		case "revision":
			leaf.Revision ^= 1 << (2 * at)
		case "op":
			leaf.Op ^= Op(bit)
		case "longer":
			path = append(path, [32]byte{})
		case "path":
			path[rapid.IntRange(0, len(path)-1).Draw(t, "step")][at] ^= bit
		case "shorter":
			path = path[:len(path)-1]
		case "doubled":
			path = append(path, path...)
		}
		if err := VerifySetPath(s, index, leaf, path); err == nil {
			t.Fatal("verified")
		}
	})
}

func TestSetPathRefusals(t *testing.T) {
	leaves, hashes := setLeaves(3)
	put, tomb := leaves[0], leaves[2]
	tombWithContent, putWithout, noOp := tomb, put, put
	tombWithContent.Content[0], putWithout.Content, noOp.Op = 1, [32]byte{}, 0
	alone := func(l Leaf) Set { return SetOf([][32]byte{l.Hash()}) }
	for _, tt := range []struct {
		name  string
		set   Set
		index uint64
		leaf  Leaf
		path  [][32]byte
		want  string // a part of the refusal, none if it verifies
	}{
		{"the only leaf needs no path", alone(put), 0, put, nil, ""},
		{"a tombstone alone", alone(tomb), 0, tomb, nil, ""},
		{"an empty set holds nothing", SetOf(nil), 0, put, nil, "index 0, tree of size 0"},
		{"an empty set whose root is the leaf", Set{0, envelope.Hash(put.Hash())}, 0, put, nil, "index 0, tree of size 0"},
		{"the index just past the end", SetOf(hashes), 3, put, nil, "index 3, tree of size 3"},
		{"a path without end", Set{1 << 63, envelope.Hash{}}, 0, put, make([][32]byte, 1<<16), "wrong proof size 65536"},
		{"the largest count there is", Set{1<<64 - 1, envelope.Hash{}}, 1<<64 - 2, put, make([][32]byte, 64), "entry"},
		{"a tombstone with content", alone(tombWithContent), 0, tombWithContent, nil, "content part"},
		{"a put without content", alone(putWithout), 0, putWithout, nil, "content part"},
		{"no operation", alone(noOp), 0, noOp, nil, "operation 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := VerifySetPath(tt.set, tt.index, tt.leaf, tt.path)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("VerifySetPath = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestSaltsOpenOneLeafOnly(t *testing.T) {
	k, other := setKey(), LeafKey{1}
	a, b := sha256.Sum256([]byte("a")), sha256.Sum256([]byte("b"))
	seen := map[[32]byte]string{}
	for name, salts := range map[string]func() (su, sc [32]byte){
		"the page":              func() (su, sc [32]byte) { return k.Salts(1, 2, a) },
		"another page":          func() (su, sc [32]byte) { return k.Salts(1, 2, b) },
		"its next revision":     func() (su, sc [32]byte) { return k.Salts(1, 3, a) },
		"another journal_epoch": func() (su, sc [32]byte) { return k.Salts(2, 2, a) },
		"the two exchanged":     func() (su, sc [32]byte) { return k.Salts(2, 1, a) },
		"another key":           func() (su, sc [32]byte) { return other.Salts(1, 2, a) },
	} {
		su, sc := salts()
		for _, salt := range [][32]byte{su, sc} {
			if was, ok := seen[salt]; ok {
				t.Errorf("%s and %s share a salt", was, name)
			}
			seen[salt] = name
		}
	}
}

func TestALeafKeyIsNeverWritten(t *testing.T) {
	k := setKey()
	var log strings.Builder
	holder := struct{ K LeafKey }{k}
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "k", k, "in", holder)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "k", k, "in", holder)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%d", "%q"} {
		fmt.Fprintf(&log, verb+" "+verb+"\n", k, holder)
	}
	for _, trace := range []string{"0102", "1 2", "1,2", "0x1, 0x2", `\x01`, "AAEC"} {
		if strings.Contains(log.String(), trace) {
			t.Errorf("%q in %s", trace, log.String())
		}
	}
	if b, err := json.Marshal(holder); err == nil {
		t.Errorf("encoding/json wrote %s", b)
	}
	if b, err := envelope.Canonical(holder); err == nil {
		t.Errorf("Canonical wrote %s", b)
	}
}

func BenchmarkSetOf1000(b *testing.B) {
	_, hashes := setLeaves(1000)
	b.ReportAllocs()
	for b.Loop() {
		SetOf(hashes)
	}
}

// TestAMakerMakesTheSameLeaves as the key alone, one after the other.
func TestAMakerMakesTheSameLeaves(t *testing.T) {
	k := setKey()
	m := k.Maker()
	rapid.Check(t, func(t *rapid.T) {
		op := rapid.SampledFrom([]Op{OpPut, OpTombstone}).Draw(t, "op")
		epoch, revision := rapid.Uint64().Draw(t, "epoch"), rapid.Uint64().Draw(t, "revision")
		url, digest := rapid.String().Draw(t, "url"), sha256.Sum256(rapid.SliceOf(rapid.Byte()).Draw(t, "payload"))
		var in [17 + sha256.Size]byte
		binary.BigEndian.PutUint64(in[1:], epoch)
		binary.BigEndian.PutUint64(in[9:], revision)
		urlHash := sha256.Sum256([]byte(url))
		copy(in[17:], urlHash[:])
		in[0] = 'u'
		want := Leaf{Op: op, Revision: revision, Object: ObjectPart(k.mac("uzpif-oi/leaf-salt/v1", in[:]), url)}
		in[0] = 'c'
		if op == OpPut {
			want.Content = ContentPart(k.mac("uzpif-oi/leaf-salt/v1", in[:]), digest)
		}
		if got := m.Leaf(op, epoch, revision, url, digest); got != want {
			t.Errorf("leaf %+v, want %+v", got, want)
		}
		if got := k.Leaf(op, epoch, revision, url, digest); got != want {
			t.Errorf("leaf by the key %+v, want %+v", got, want)
		}
		if got := m.Hash(op, epoch, revision, url, digest); got != want.Hash() {
			t.Errorf("hash %x, want %x", got, want.Hash())
		}
	})
}

func BenchmarkLeafMaker(b *testing.B) {
	m := setKey().Maker()
	b.ReportAllocs()
	for b.Loop() {
		m.Hash(OpPut, 7, 42, "https://example.com/docs/a", [32]byte{1})
	}
}

func BenchmarkLeaf(b *testing.B) {
	k := setKey()
	b.ReportAllocs()
	for b.Loop() {
		k.Leaf(OpPut, 7, 42, "https://example.com/docs/a", [32]byte{1}).Hash()
	}
}
