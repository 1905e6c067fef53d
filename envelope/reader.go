package envelope

import "bytes"

// A Reader reads the members of one canonical object in their order, in a
// fraction of the time of DecodeCanonical, for types that are read often. It is
// the counterpart of Encoder. What it reads is what an Encoder would write: after
// the first member that is not, everything is absent, and Done is false.
//
// It trusts the octets to be canonical, as a Body is.
type Reader struct {
	rest  []byte
	first bool
	bad   bool
}

// NewReader reads the object b.
func NewReader(b []byte) *Reader {
	if len(b) < 2 || b[0] != '{' || b[len(b)-1] != '}' {
		return &Reader{bad: true}
	}
	return &Reader{rest: b[1 : len(b)-1], first: true}
}

// Done reports whether all members were read, and all were as they have to be.
func (r *Reader) Done() bool { return !r.bad && len(r.rest) == 0 }

// at reports whether name is the next member, and moves to its value.
func (r *Reader) at(name string) bool {
	rest := r.rest
	if r.bad || len(rest) < len(name)+4 {
		return false
	}
	if !r.first {
		if rest[0] != ',' {
			return false
		}
		rest = rest[1:]
	}
	if len(rest) < len(name)+3 || rest[0] != '"' || string(rest[1:1+len(name)]) != name || rest[1+len(name)] != '"' || rest[2+len(name)] != ':' {
		return false
	}
	r.rest, r.first = rest[len(name)+3:], false
	return true
}

// must is at for a member that has to be there.
func (r *Reader) must(name string) bool {
	ok := r.at(name)
	r.bad = r.bad || !ok
	return ok
}

// quoted reads a string without escapes, in place.
func (r *Reader) quoted() []byte {
	if len(r.rest) == 0 || r.rest[0] != '"' {
		r.bad = true
		return nil
	}
	end := bytes.IndexByte(r.rest[1:], '"')
	if end < 0 || bytes.IndexByte(r.rest[1:1+end], '\\') >= 0 {
		r.bad = true
		return nil
	}
	s := r.rest[1 : 1+end]
	r.rest = r.rest[end+2:]
	return s
}

// Text reads a string. One with an escape is not read.
func (r *Reader) Text(name string) string {
	if !r.must(name) {
		return ""
	}
	return string(r.quoted())
}

// Name reads a name.
func (r *Reader) Name(name string) Name {
	n, err := ParseName(r.Text(name))
	r.bad = r.bad || err != nil
	return n
}

// Number reads an integer that is not negative.
func (r *Reader) Number(name string) uint64 {
	if !r.must(name) {
		return 0
	}
	return r.digits()
}

// OptionalNumber reads an integer that may be absent, which stands for 0.
func (r *Reader) OptionalNumber(name string) (n uint64) {
	if r.at(name) {
		n = r.digits()
		r.bad = r.bad || n == 0
	}
	return n
}

func (r *Reader) digits() uint64 {
	n, i := uint64(0), 0
	for ; i < len(r.rest) && i < 17 && r.rest[i] >= '0' && r.rest[i] <= '9'; i++ {
		n = n*10 + uint64(r.rest[i]-'0')
	}
	r.bad = r.bad || i == 0 || n > MaxInteger
	r.rest = r.rest[i:]
	return n
}

// Hash reads a hash.
func (r *Reader) Hash(name string) (h Hash) {
	if r.must(name) {
		h = r.hash()
	}
	return h
}

// OptionalHash reads a hash that may be absent, which stands for the zero one.
func (r *Reader) OptionalHash(name string) (h Hash) {
	if r.at(name) {
		h = r.hash()
		r.bad = r.bad || h.IsZero()
	}
	return h
}

func (r *Reader) hash() (h Hash) {
	h, ok := readHash(r.quoted())
	r.bad = r.bad || !ok
	return h
}

// Time reads a time.
func (r *Reader) Time(name string) Time {
	if !r.must(name) {
		return Time{}
	}
	t, ok := readTime(r.quoted())
	r.bad = r.bad || !ok
	return t
}

// Texts reads an array of strings, none of which has an escape.
func (r *Reader) Texts(name string) []string {
	if !r.must(name) {
		return nil
	}
	if !bytes.HasPrefix(r.rest, []byte("[")) {
		r.bad = true
		return nil
	}
	r.rest = r.rest[1:]
	list := []string{}
	for !r.bad && !bytes.HasPrefix(r.rest, []byte("]")) {
		if len(list) > 0 {
			if !bytes.HasPrefix(r.rest, []byte(",")) {
				r.bad = true
				return nil
			}
			r.rest = r.rest[1:]
		}
		list = append(list, string(r.quoted()))
	}
	if !r.bad {
		r.rest = r.rest[1:]
	}
	return list
}

// Within reads the members of an object that is a member.
func (r *Reader) Within(name string, read func(*Reader)) {
	if !r.must(name) {
		return
	}
	n := valueLen(r.rest)
	inner := NewReader(r.rest[:n])
	read(inner)
	r.bad = r.bad || !inner.Done()
	r.rest = r.rest[n:]
}
