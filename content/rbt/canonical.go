package rbt

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// A manifest's own RID (7.3.2) is the SHA-256 of its canonical form (RFC 8785)
// without manifest.rid. The RIDs of its collections hold digits of that very
// RID, so that the rule as it is printed has no solution: each rid of an entry
// that begins with urn:rabit:collection: counts as the empty string.

// ManifestRID computes the RID of a manifest. Everything else that the document
// holds is part of it, members that are not known here included.
func ManifestRID(data []byte) (RID, error) { return ownRID(data, "manifest", true) }

// RegistryRID computes the RID of a registry, for which the text has no rule,
// in the same way: without registry.rid.
func RegistryRID(data []byte) (RID, error) { return ownRID(data, "registry", false) }

// CheckManifest returns an error that wraps ErrVerification unless the RID that
// a manifest names is its own. One that was made with the RIDs of collections as
// they stand is its own as well: it covers more.
func CheckManifest(data []byte, named RID) error {
	own, err := ManifestRID(data)
	if err != nil || own == named {
		return err
	}
	if literal, err := ownRID(data, "manifest", false); err != nil || literal == named {
		return err
	}
	return fmt.Errorf("%w: the manifest names %s, and is %s", ErrVerification, named, own)
}

// ownRID hashes the canonical form of data without the rid of its member meta.
func ownRID(data []byte, meta string, blank bool) (RID, error) {
	if err := checkText(data, MaxManifest); err != nil {
		return RID{}, invalid("%w", err)
	}
	var out bytes.Buffer
	err := rewrite(&out, data, func(name string, v jsontext.Value) (jsontext.Value, error) {
		switch {
		case name == meta:
			return withoutRID(v)
		case name == "entries" && blank:
			return blanked(v)
		}
		return v, nil
	})
	canonical := jsontext.Value(out.Bytes())
	if err == nil {
		err = canonical.Canonicalize()
	}
	if err != nil {
		return RID{}, invalid("%w", err)
	}
	return SumRID(sha256.Sum256(canonical)), nil
}

// rewrite copies an object, with the value of each member as change gives it;
// nil leaves the member out.
func rewrite(out *bytes.Buffer, object jsontext.Value, change func(name string, v jsontext.Value) (jsontext.Value, error)) error {
	out.WriteByte('{')
	first := true
	err := allMembers(object, func(name string, v jsontext.Value) error {
		v, err := change(name, v)
		if err != nil || v == nil {
			return err
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		quoted, err := jsontext.AppendQuote(nil, name)
		out.Write(quoted)
		out.WriteByte(':')
		out.Write(v)
		return err
	})
	out.WriteByte('}')
	return err
}

func withoutRID(v jsontext.Value) (jsontext.Value, error) {
	var out bytes.Buffer
	err := rewrite(&out, v, func(name string, v jsontext.Value) (jsontext.Value, error) {
		if name == "rid" {
			return nil, nil
		}
		return v, nil
	})
	return out.Bytes(), err
}

// blanked copies the entries with the RIDs of collections empty.
func blanked(v jsontext.Value) (jsontext.Value, error) {
	var out bytes.Buffer
	out.WriteByte('[')
	err := items(v, MaxEntries, func(n int, v jsontext.Value) error {
		if n > 0 {
			out.WriteByte(',')
		}
		if v.Kind() != '{' {
			out.Write(v)
			return nil
		}
		return rewrite(&out, v, func(name string, v jsontext.Value) (jsontext.Value, error) {
			if name != "rid" || v.Kind() != '"' {
				return v, nil
			}
			s, err := jsontext.AppendUnquote(nil, v)
			if bytes.HasPrefix(s, []byte(collectionPrefix)) {
				v = jsontext.Value(`""`)
			}
			return v, err
		})
	})
	out.WriteByte(']')
	return slices.Clip(out.Bytes()), err
}
