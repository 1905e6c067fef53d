// Package expanded signs by an Ed25519 key (RFC 8032) that was expanded once, many
// messages at a time: a log signs tens of thousands a second by the same one.
//
// A signature is the very octets that crypto/ed25519 makes
// (TestSignaturesAreThoseOfTheStandardLibrary), in three quarters of the time. What is
// saved is work that crypto/ed25519 does anew for each: the key is expanded once, and
// the points of all nonces are written with one inversion in the field for all of them,
// by Montgomery's trick ("Speeding the Pollard and Elliptic Curve Methods of
// Factorization", 1987, section 10.3.1), where each would take one of its own, an eighth
// of a signature. The arithmetic is that of filippo.io/edwards25519, from which that of
// the standard library comes; every operation on what is secret takes the same time
// whatever it is.
//
// Who verifies does so by crypto/ed25519: with the key's point found once a verification
// takes a twentieth less, which is not worth another implementation of what is trusted.
package expanded

import (
	"crypto/ed25519"
	"crypto/sha512"
	"hash"
	"sync"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// Most is how many signatures share an inversion: more would save less than a
// hundredth of one each.
const Most = 32

// A PrivateKey signs. It may be used by many goroutines at the same time.
type PrivateKey struct {
	scalar *edwards25519.Scalar
	prefix []byte // of what a nonce is hashed of
	public []byte
}

// NewPrivateKey expands key (RFC 8032, 5.1.5), which has crypto/ed25519's size and
// whose public half is that of its seed: the caller has made sure.
func NewPrivateKey(key ed25519.PrivateKey) *PrivateKey {
	h := sha512.Sum512(key.Seed())
	s, err := edwards25519.NewScalar().SetBytesWithClamping(h[:32])
	if err != nil {
		panic("expanded: 32 octets are no scalar") // they always are
	}
	return &PrivateKey{s, h[32:], key.Public().(ed25519.PublicKey)}
}

// Sign writes the signature of each message to the place of its number in sigs,
// which is as long.
func (k *PrivateKey) Sign(sigs [][ed25519.SignatureSize]byte, messages [][]byte) {
	for len(messages) > Most {
		k.sign(sigs[:Most], messages[:Most])
		sigs, messages = sigs[Most:], messages[Most:]
	}
	k.sign(sigs, messages)
}

// sign signs at most Most messages (RFC 8032, 5.1.6).
func (k *PrivateKey) sign(sigs [][ed25519.SignatureSize]byte, messages [][]byte) {
	w := workspaces.Get().(*workspace)
	defer workspaces.Put(w)
	for i, m := range messages {
		w.hashed(&w.nonces[i], k.prefix, m)
		w.points[i].set(w.nonce.ScalarBaseMult(&w.nonces[i]))
	}
	encode(w.points[:len(messages)], sigs)
	s := &w.scalar
	for i, m := range messages {
		w.hashed(s, sigs[i][:32], k.public, m)
		s.MultiplyAdd(s, k.scalar, &w.nonces[i])
		copy(sigs[i][32:], s.Bytes())
	}
	clear(w.nonces[:]) // with one, its signature gives the key away
}

// A workspace is the memory in which messages are signed: on a stack, each new goroutine
// would have its own grow.
type workspace struct {
	nonces [Most]edwards25519.Scalar
	points [Most]point
	nonce  edwards25519.Point
	scalar edwards25519.Scalar
	hash   hash.Hash
	sum    [sha512.Size]byte
}

var workspaces = sync.Pool{New: func() any { return &workspace{hash: sha512.New()} }}

// hashed sets s to the hash of the parts, modulo the order of the group.
func (w *workspace) hashed(s *edwards25519.Scalar, parts ...[]byte) {
	w.hash.Reset()
	for _, p := range parts {
		w.hash.Write(p)
	}
	if _, err := s.SetUniformBytes(w.hash.Sum(w.sum[:0])); err != nil {
		panic("expanded: a hash is not of 64 octets") // it always is
	}
}

// A point is to be written: x is X/Z, and y is Y/Z.
type point struct {
	x, y, z field.Element
	before  field.Element // the product of the z of those before it
}

func (p *point) set(q *edwards25519.Point) {
	x, y, z, _ := q.ExtendedCoordinates()
	p.x, p.y, p.z = *x, *y, *z
}

// encode writes all points (RFC 8032, 5.1.2) to the first halves of sigs. No z is
// zero: the formulas for adding are complete.
func encode(points []point, sigs [][ed25519.SignatureSize]byte) {
	var product, inverse field.Element
	product.One()
	for i := range points {
		points[i].before = product
		product.Multiply(&product, &points[i].z)
	}
	inverse.Invert(&product)
	for i := len(points) - 1; i >= 0; i-- {
		p := &points[i]
		var own field.Element // 1/z
		own.Multiply(&inverse, &p.before)
		inverse.Multiply(&inverse, &p.z)
		p.x.Multiply(&p.x, &own)
		p.y.Multiply(&p.y, &own)
		copy(sigs[i][:], p.y.Bytes())
		sigs[i][31] |= byte(p.x.IsNegative() << 7)
	}
}
