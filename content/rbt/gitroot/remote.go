package gitroot

import (
	"encoding/hex"
	"fmt"
	"net"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

// Head, where a Ref is asked for, is what the remote calls HEAD. No document can
// name it; an operator may.
const Head rbt.Ref = ""

// Origin names a remote's server as Config does: https://host, http://host:port,
// or ssh://host:port, in which the port is always there.
func Origin(r rbt.Remote) string {
	if r.Scheme == "ssh" {
		return "ssh://" + sshAddress(r)
	}
	origin, err := fetch.Origin(r.Scheme + "://" + r.Host)
	if err != nil {
		return "" // of the zero Remote; no list holds it
	}
	return origin
}

func sshAddress(r rbt.Remote) string {
	host, port, ok := strings.Cut(strings.ToLower(r.Host), ":")
	if !ok {
		port = "22"
	}
	return net.JoinHostPort(host, port)
}

// sshPath is what the server is asked for. As git has it, what follows /~ is
// relative to somebody's home.
func sshPath(r rbt.Remote) string {
	if strings.HasPrefix(r.Path, "/~") {
		return r.Path[1:]
	}
	return r.Path
}

// ID is the name of a git object: its SHA-1, which is computed here with the
// detection of collisions that git itself uses. The zero ID is none.
type ID [20]byte

// ParseID accepts exactly the form that String prints.
func ParseID(s string) (ID, error) {
	var id ID
	if len(s) != 2*len(id) || s != strings.ToLower(s) {
		return ID{}, fmt.Errorf("malformed ID %.60q", s)
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return ID{}, fmt.Errorf("malformed ID %.60q", s)
	}
	return id, nil
}

// String returns the 40 digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }
