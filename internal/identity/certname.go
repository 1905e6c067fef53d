package identity

import (
	"crypto/x509"
	"encoding/asn1"
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// nameOf reads the identity out of a certificate: the one entry of its
// subjectAltName extension, which must be a URI and a SPIFFE ID in canonical
// form. The octets of the extension itself are read, because the parsed
// certificate leaves some kinds of name out and rewrites URIs.
func nameOf(cert *x509.Certificate) (envelope.Name, error) {
	var names []byte
	for _, x := range cert.Extensions {
		if !x.Id.Equal(asn1.ObjectIdentifier{2, 5, 29, 17}) {
			continue
		}
		if names != nil {
			return "", fmt.Errorf("%w: two lists of alternative names", ErrCertificate)
		}
		names = x.Value
	}
	if names == nil {
		return "", fmt.Errorf("%w: no alternative name; a common name counts for nothing", ErrCertificate)
	}
	return parseNames(names)
}

// parseNames reads the DER of a GeneralNames that holds one URI.
func parseNames(der []byte) (envelope.Name, error) {
	var list, entry asn1.RawValue
	rest, err := asn1.Unmarshal(der, &list)
	if err != nil || len(rest) > 0 || list.Class != asn1.ClassUniversal || list.Tag != asn1.TagSequence || !list.IsCompound {
		return "", fmt.Errorf("%w: malformed alternative names", ErrCertificate)
	}
	rest, err = asn1.Unmarshal(list.Bytes, &entry)
	if err != nil {
		return "", fmt.Errorf("%w: malformed alternative names", ErrCertificate)
	}
	if len(rest) > 0 {
		return "", fmt.Errorf("%w: more than one alternative name", ErrCertificate)
	}
	const uri = 6
	if entry.Class != asn1.ClassContextSpecific || entry.Tag != uri || entry.IsCompound {
		return "", fmt.Errorf("%w: the alternative name is not a URI", ErrCertificate)
	}
	name, err := ParseName(string(entry.Bytes))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrCertificate, err)
	}
	return name, nil
}
