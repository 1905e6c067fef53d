package envelope

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxExtension is the length limit of an extension's name, in octets.
const maxExtension = 255

// An Extension is one member of "extensions". One that is critical and that
// the verifier does not know refuses the object; any other is covered by the
// signatures and otherwise ignored.
type Extension struct {
	Critical bool           `json:"critical"`
	Data     jsontext.Value `json:"data"`
}

// validExtension reports whether name has the form name.domain/label, all in
// [a-z0-9_-].
func validExtension(name string) bool {
	domain, label, ok := strings.Cut(name, "/")
	if !ok || len(name) > maxExtension || !strings.Contains(domain, ".") {
		return false
	}
	for part := range strings.SplitSeq(domain, ".") {
		if !isLabel(part) {
			return false
		}
	}
	return isLabel(label)
}

func isLabel(s string) bool {
	if s == "" || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}
