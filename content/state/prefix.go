package state

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"
)

// maxDepth is the number of nibbles in h.
const maxDepth = 64

// A Prefix names a subtree by the nibbles that lead to it. The zero Prefix is
// the whole tree.
type Prefix struct {
	path  [32]byte // nibbles beyond depth are zero
	depth uint8
}

// ParsePrefix accepts exactly what String prints: up to 64 lower-case hex
// digits, one for each nibble.
func ParsePrefix(s string) (Prefix, error) {
	var p Prefix
	if len(s) > maxDepth || strings.ToLower(s) != s {
		return Prefix{}, fmt.Errorf("malformed state prefix %.80q", s)
	}
	even := s + strings.Repeat("0", len(s)%2)
	if _, err := hex.Decode(p.path[:], []byte(even)); err != nil {
		return Prefix{}, fmt.Errorf("malformed state prefix %.80q", s)
	}
	p.depth = uint8(len(s))
	return p, nil
}

func (p Prefix) String() string { return hex.EncodeToString(p.path[:])[:p.depth] }

// Depth is the number of nibbles, 0 to 64.
func (p Prefix) Depth() int { return int(p.depth) }

// Child is the prefix one nibble longer. It panics if n is above 15 or p has 64
// nibbles already.
func (p Prefix) Child(n int) Prefix {
	if n < 0 || n > 15 {
		panic(fmt.Sprintf("state: nibble %d", n))
	}
	shift := 4 * (1 - p.depth%2)
	p.path[p.depth/2] |= byte(n) << shift
	p.depth++
	return p
}

// Contains reports whether h begins with p.
func (p *Prefix) Contains(h *[32]byte) bool {
	whole := p.depth / 2
	if string(h[:whole]) != string(p.path[:whole]) {
		return false
	}
	return p.depth%2 == 0 || h[whole]&0xf0 == p.path[whole]
}

// compare orders prefixes as the keys of their rows are ordered.
func (p *Prefix) compare(o *Prefix) int {
	return cmp.Or(cmp.Compare(p.depth, o.depth), bytes.Compare(p.path[:], o.path[:]))
}

// packed are the octets that hold the nibbles.
func (p *Prefix) packed() []byte { return p.path[:(p.depth+1)/2] }

// nibble is number i of h.
func nibble(h *[32]byte, i uint8) int {
	return int(h[i/2]>>(4*(1-i%2))) & 15
}
