package rbt

import (
	"fmt"
	"strconv"
	"strings"
)

// A Version is that of the text which a document follows (16.1).
type Version struct{ Major, Minor int }

// Written is the version of the documents that are written here.
var Written = Version{0, 2}

// ParseVersion accepts exactly the form that String prints.
func ParseVersion(s string) (Version, error) {
	major, minor, _ := strings.Cut(s, ".")
	a, errA := strconv.ParseUint(major, 10, 31)
	b, errB := strconv.ParseUint(minor, 10, 31)
	v := Version{int(a), int(b)}
	if errA != nil || errB != nil || v.String() != s {
		return Version{}, fmt.Errorf("version %.40q: want MAJOR.MINOR", s)
	}
	return v, nil
}

func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// version decides what to do with a document of version v (16.2): an older one
// is read with a warning, a newer minor one as far as it is known, and a newer
// major one not at all.
func (r *reader) version(s string) (Version, error) {
	v, err := ParseVersion(s)
	switch {
	case err != nil:
		return v, err
	case v.Major > Written.Major:
		return v, fmt.Errorf("%w: %v", ErrVersion, v)
	case v.Minor < Written.Minor:
		r.warn("version %v is older than %v", v, Written)
	}
	return v, nil
}
