package envelope

import (
	"cmp"
	"crypto/ed25519"
	"encoding/base64"
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
// who signs. It reads nothing again, and signs SignedTogether of them at once, which
// takes two fifths of the time: that Parse would return the same is held by
// TestSignBodiesIsSign, and that a body can be decoded is for the caller to hold. The
// bodies are copied. The objects share memory: who keeps one keeps it for
// SignedTogether. An error is that of the first draft that has one, and nothing is
// returned beside it.
func SignBodies(drafts []Draft, signer Name, s *Signer) ([]*Object, error) {
	objects := make([]*Object, 0, len(drafts))
	m := workspaces.Get().(*workspace)
	defer m.giveBack()
	for first := 0; first < len(drafts); first += SignedTogether {
		some := drafts[first:min(first+SignedTogether, len(drafts))]
		var err error
		if objects, err = m.sign(objects, some, signer, s); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// SignedTogether is how many envelopes share the memory and the work of signing.
const SignedTogether = 16

// A workspace is the memory in which envelopes are put together and hashed: a log signs
// tens of thousands a second.
type workspace struct {
	encoder  Encoder
	drafts   [SignedTogether]draft
	messages [SignedTogether][]byte
	sigs     [SignedTogether][ed25519.SignatureSize]byte
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

// sign appends the envelopes of at most SignedTogether drafts to objects.
func (m *workspace) sign(objects []*Object, drafts []Draft, signer Name, s *Signer) ([]*Object, error) {
	n, room, key := len(drafts), 0, s.public.ID()
	for i := range drafts {
		d := &m.drafts[i]
		if err := drafts[i].check(signer); err != nil {
			return nil, err
		}
		if err := d.compose(drafts[i].Header, drafts[i].Body, key, &m.encoder); err != nil {
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
	made, signatures, raw := make([]Object, n), make([]Signature, n), make([]byte, 0, room)
	for i := range drafts {
		signatures[i] = Signature{Ed25519, key, texts[i*sigText : (i+1)*sigText]}
		d := m.drafts[i].finish(raw, signatures[i:i+1:i+1])
		raw = raw[:len(raw)+len(d.raw)]
		made[i] = d.object(&drafts[i].Header, signer)
		objects = append(objects, &made[i])
	}
	return objects, nil
}

// sigText is how many characters a signature has.
const sigText = (ed25519.SignatureSize*8 + 5) / 6

// texts are the first n signatures as they are written, one behind the other.
func (m *workspace) texts(n int) string {
	var room [SignedTogether * sigText]byte
	b := room[:0]
	for i := range n {
		b = base64.RawURLEncoding.AppendEncode(b, m.sigs[i][:])
	}
	return string(b)
}

// check refuses what Parse would refuse of the envelope.
func (d *Draft) check(signer Name) error {
	r, known := ruleOf(d.Type)
	switch {
	case !known:
		return refuse(ErrType, "object_type", "%.40q", string(d.Type))
	case len(d.Extensions) > 0:
		return refuse(ErrSchema, "extensions", "not written here")
	}
	for _, n := range []Name{d.Authority, d.Subject, signer, cmp.Or(d.Audience, signer)} {
		if _, err := ParseName(string(n)); err != nil {
			return refuse(ErrSchema, "", "%v", err)
		}
	}
	o := signed{body: d.Body}.object(&d.Header, signer)
	return o.checkHead(r)
}

// object is d as Parse would return it; h and signer are what it was made of.
func (d signed) object(h *Header, signer Name) Object {
	return Object{
		Type: h.Type, ID: d.id, Authority: h.Authority, Subject: h.Subject, Audience: h.Audience, Signer: signer,
		Epoch: h.Epoch, Sequence: h.Sequence,
		IssuedAt: At(h.IssuedAt).Time, NotBefore: At(h.NotBefore).Time, ExpiresAt: At(h.ExpiresAt).Time,
		Body: d.body, Signatures: d.signatures, Raw: d.raw, signed: d.cut,
	}
}
