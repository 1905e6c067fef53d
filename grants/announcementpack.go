package grants

import (
	"bytes"
	"compress/flate"
	"io"
)

// PackFeature is what a side says that takes packed announcements.
const PackFeature = "packed"

// packDictionary is what packing takes for granted: the members of an
// announcement, in their order. It is part of the protocol.
const packDictionary = `"url-set""feed""hash-set"retrievetrain"rag.retrieve","search.index"],"scope":{"prefixes":["https://` +
	`{"audience":"spiffe://","body":{"exporter":"","grants":["sha256:"],"nonce":"","policies":["sha256:"],"publisher":"spiffe://` +
	`","requests":[{"actions":["discovery","refresh"],"purposes":["search.index"],"scope":{"prefixes":["https:///"],"type":"url-prefix"},"series":"` +
	`"}]},"envelope_version":"uzpif-oi-env/1","epoch":1,"expires_at":"20","issued_at":"20","issuer_authority":"spiffe://` +
	`","object_id":"sha256:","object_type":"announcement","sequence":17,"signatures":[{"alg":"Ed25519","key_id":"sha256:","sig":""}],"subject":"spiffe://"}`

// Pack makes the octets of a signed announcement shorter: most of them are the
// names of members, and digits of hashes. It is RFC 1951 with a dictionary.
func Pack(raw []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := flate.NewWriterDict(&out, flate.BestCompression, []byte(packDictionary))
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(raw); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// Unpack undoes Pack, for at most so many octets. It does not allocate more than
// twice as many, whatever packed says.
func Unpack(packed []byte, most int) ([]byte, error) {
	in := bytes.NewReader(packed)
	r := flate.NewReaderDict(in, []byte(packDictionary))
	raw, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case err != nil:
		return nil, refuse(ErrMalformed, "a packed announcement: %v", err)
	case len(raw) > most:
		return nil, refuse(ErrOversize, "a packed announcement of more than %d octets", most)
	case in.Len() > 0:
		return nil, refuse(ErrMalformed, "%d octets behind a packed announcement", in.Len())
	}
	return raw, nil
}
