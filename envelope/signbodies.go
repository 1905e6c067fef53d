package envelope

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
	"slices"
	"sync"
)

// A Draft is an envelope that is to be signed. There are no extensions.
type Draft struct {
	Header
	Body []byte // as an Encoder wrote it
}

// SignBody is SignBodies for one.
func SignBody(h Header, body []byte, signer Name, s *Signer) (*Object, error) {
	o, err := SignBodies([]Draft{{h, body}}, signer, s)
	if err != nil {
		return nil, err
	}
	return o[0], nil
}

// SignBodies is Sign for bodies that an Encoder wrote and that name signer as the one
// who signs. It reads nothing again, and signs SignedTogether of them at once, in less
// than half of the time: that Parse would return the same is held by
// TestSignBodiesIsSignBody and TestSignBodyIsSign, and that a body can be decoded is for
// the caller to hold. The bodies are copied. The objects share memory: who keeps one
// keeps that of SignedTogether. An error is that of the first draft that has one, and
// nothing is returned beside it.
func SignBodies(drafts []Draft, signer Name, s *Signer) ([]*Object, error) {
	signed := make([]*Object, 0, len(drafts))
	for first := 0; first < len(drafts); first += SignedTogether {
		objects, err := new(Pad).SignBodies(drafts[first:min(first+SignedTogether, len(drafts))], signer, s)
		if err != nil {
			return nil, err
		}
		for i := range objects {
			signed = append(signed, &objects[i])
		}
	}
	return signed, nil
}

// A Pad is memory for objects that are signed together. Who knows when nobody has a use
// for them any more can sign the next ones there; the zero Pad takes what it needs.
type Pad struct {
	objects    []Object
	signatures []Signature
	raw        []byte
}

// SignBodies is SignBodies for at most SignedTogether drafts. The objects are in p,
// until it is used again.
func (p *Pad) SignBodies(drafts []Draft, signer Name, s *Signer) ([]Object, error) {
	m := workspaces.Get().(*workspace)
	defer m.giveBack()
	return m.sign(p, drafts, signer, s)
}

// Reset forgets the objects, which nobody may read any more, and keeps their memory
// unless they were large.
func (p *Pad) Reset() {
	const large = SignedTogether * 4 << 10
	clear(p.objects)
	clear(p.signatures)
	if cap(p.raw) > large {
		p.raw = nil
	}
}

// sized is s, or more memory, with n elements of whatever is in there.
func sized[T any](s []T, n int) []T { return slices.Grow(s[:0], n)[:n] }

// SignedTogether is how many envelopes share the memory and the work of signing.
const SignedTogether = 16

// A workspace is the memory in which envelopes are put together and hashed: a log signs
// tens of thousands a second.
type workspace struct {
	encoder  Encoder
	drafts   [SignedTogether]draft
	messages [SignedTogether][]byte
	sigs     [SignedTogether][ed25519.SignatureSize]byte
	text     [SignedTogether * sigText]byte
}

var workspaces = sync.Pool{New: func() any { return new(workspace) }}

// giveBack lends m to the next, unless a large envelope made it large.
func (m *workspace) giveBack() {
	large := cap(m.encoder.b) > 16<<10
	for i := range m.drafts {
		large = large || cap(m.drafts[i].input) > 16<<10
	}
	if !large {
		workspaces.Put(m)
	}
}

// sign signs the envelopes of at most SignedTogether drafts into p.
func (m *workspace) sign(p *Pad, drafts []Draft, signer Name, s *Signer) ([]Object, error) {
	n, room, key := len(drafts), 0, s.public.ID()
	p.objects = sized(p.objects, n)
	var names [4]Name
	for i := range drafts {
		o, d := &p.objects[i], &m.drafts[i]
		*o = drafts[i].object(signer)
		if err := o.checkDraft(&drafts[i], names); err != nil {
			return nil, err
		}
		names = o.names()
		if err := d.compose(&drafts[i].Header, drafts[i].Body, key, &m.encoder); err != nil {
			return nil, err
		}
		if d.size(1) > MaxSize {
			return nil, refuse(ErrSize, "", "%d octets, at most %d", d.size(1), MaxSize)
		}
		m.messages[i] = d.input
		room += d.size(1)
	}
	s.many.Sign(m.sigs[:n], m.messages[:n])
	texts := m.texts(n)
	p.signatures, p.raw = sized(p.signatures, n), slices.Grow(p.raw[:0], room)
	for i := range p.objects {
		o := &p.objects[i]
		p.signatures[i] = Signature{Ed25519, key, texts[i*sigText : (i+1)*sigText]}
		d := m.drafts[i].finish(p.raw, p.signatures[i:i+1:i+1])
		p.raw = p.raw[:len(p.raw)+len(d.raw)]
		o.ID, o.Body, o.Signatures, o.Raw, o.signed = d.id, d.body, d.signatures, d.raw, d.cut
	}
	return p.objects, nil
}

// sigText is how many characters a signature has.
const sigText = (ed25519.SignatureSize*8 + 5) / 6

// texts are the first n signatures as they are written, one behind the other.
func (m *workspace) texts(n int) string {
	b := m.text[:0]
	for i := range n {
		b = base64.RawURLEncoding.AppendEncode(b, m.sigs[i][:])
	}
	return string(b)
}

// object is what is known of the envelope before it is signed.
func (d *Draft) object(signer Name) Object {
	return Object{
		Type: d.Type, Authority: d.Authority, Subject: d.Subject, Audience: d.Audience, Signer: signer,
		Epoch: d.Epoch, Sequence: d.Sequence, Body: d.Body,
		IssuedAt: At(d.IssuedAt).Time, NotBefore: At(d.NotBefore).Time, ExpiresAt: At(d.ExpiresAt).Time,
	}
}

// names are those of o, each of which must be well-formed.
func (o *Object) names() [4]Name {
	return [...]Name{o.Authority, o.Subject, o.Signer, cmp.Or(o.Audience, o.Signer)}
}

// checkDraft refuses what Parse would refuse of o, which is that of d. Envelopes that
// are signed together have most names in common: those of the one before were checked.
func (o *Object) checkDraft(d *Draft, checked [4]Name) error {
	r, known := ruleOf(o.Type)
	switch {
	case !known:
		return refuse(ErrType, "object_type", "%.40q", string(o.Type))
	case len(d.Extensions) > 0:
		return refuse(ErrSchema, "extensions", "not written here")
	}
	for i, n := range o.names() {
		if n == checked[i] && n != "" {
			continue
		}
		if _, err := ParseName(string(n)); err != nil {
			return refuse(ErrSchema, "", "%v", err)
		}
	}
	return o.checkHead(r)
}
