package gitroot

import (
	"errors"
	"fmt"
	"io/fs"
)

// ErrNoRef says that the remote has no such branch or tag, or no such commit
// that it would hand out.
var ErrNoRef = errors.New("the remote has no such ref")

// ErrNoCommit says that a commit is not, or no longer, in the state.
var ErrNoCommit = errors.New("the commit is not held")

// ErrTooLarge says that something goes beyond a limit.
var ErrTooLarge = errors.New("larger than the limit")

// ErrHostKey says that an SSH server showed a key that is not known for it.
var ErrHostKey = errors.New("the host's key is not the known one")

// ErrAuth says that the remote does not let us in.
var ErrAuth = errors.New("the remote refuses our credentials")

// ErrProtocol says that the remote does not speak git as it should.
var ErrProtocol = errors.New("the remote does not keep to the protocol")

// ErrOutside says that a path, or a symlink on its way, leaves the tree.
var ErrOutside = errors.New("leads out of the tree")

// ErrLoop says that symlinks lead in a circle, or through too many others.
var ErrLoop = errors.New("symlinks lead in a circle")

// ErrSubmodule says that a path lies in another repository, which is not read.
var ErrSubmodule = errors.New("is a submodule")

// ErrNotRegular says that a path names a folder where a file is asked for, or
// the other way round.
var ErrNotRegular = errors.New("is of another kind")

// ErrNotFound says that a path is not in the tree. It is fs.ErrNotExist.
var ErrNotFound = fs.ErrNotExist

// An LFSError says that a file only stands for another, which a server of Git
// LFS holds: it is no content. OID is the SHA-256 of what it stands for, in
// lower-case hexadecimal, and Size its size in octets, as the pointer claims.
type LFSError struct {
	OID  string
	Size int64
}

func (e *LFSError) Error() string {
	return fmt.Sprintf("only a pointer to %d octets in Git LFS (sha256:%s)", e.Size, e.OID)
}
