package identity

import "errors"

// Why an identity on disk cannot be made or used.
var (
	// ErrExists: Create found an identity, or part of one, and touched nothing.
	ErrExists = errors.New("there is an identity already")
	// ErrNoIdentity: Load found none.
	ErrNoIdentity = errors.New("there is no identity here")
	// ErrPermission: a private key, or its folder, is open to other users.
	ErrPermission = errors.New("open to other users")
	// ErrMismatch: the key files, the certificate and the card do not belong together.
	ErrMismatch = errors.New("does not belong to this identity card")
)

// Why a peer is refused. A card that is stale or contradicts another one is
// refused with envelope.ErrStale or envelope.ErrEquivocates.
var (
	// ErrUnknownPeer: no trusted identity has this name.
	ErrUnknownPeer = errors.New("not a trusted identity")
	// ErrWrongPeer: a trusted identity, but not the one that was called.
	ErrWrongPeer = errors.New("another identity answered")
	// ErrRole: a trusted identity of the other role.
	ErrRole = errors.New("identity has another role")
	// ErrPeerKey: the certificate's key is not a TLS key of the identity that
	// the certificate names, or not one that counts now.
	ErrPeerKey = errors.New("not a key of this identity")
	// ErrCertificate: the certificate, or the handshake around it, is not of
	// the accepted form.
	ErrCertificate = errors.New("certificate not acceptable")
	// ErrValidity: the certificate is not valid yet, or no longer.
	ErrValidity = errors.New("certificate outside its validity")
	// ErrNoCard: the authority of its trust domain vouches for the connection,
	// and no card says what the identity signs with.
	ErrNoCard = errors.New("no card of this identity is trusted")
	// ErrPath: the trusted authority of the identity's own trust domain did not
	// issue the certificate, or not for this name, use or time.
	ErrPath = errors.New("not issued by the authority of its trust domain")
	// ErrUnknownAuthority: no authority of this trust domain is trusted.
	ErrUnknownAuthority = errors.New("no authority of this trust domain is trusted")
	// ErrConflict: a public key, an origin or an authority belongs to another
	// identity or trust domain.
	ErrConflict = errors.New("belongs to another")
)
