package site

import (
	"io/fs"
	"syscall"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// stampOf is the stamp of a file.
func stampOf(info fs.FileInfo) content.Stamp {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return content.Stamp{}
	}
	return content.Stamp{Size: s.Size, Modified: s.Mtim.Nano(), Changed: s.Ctim.Nano(), Device: uint64(s.Dev), Inode: s.Ino}
}
