package arc

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// maxSitemap is the greatest size of a sitemap that is written, in octets: what is
// read of one as well.
const maxSitemap = 100 << 20

// A countWriter ends what gets too large.
type countWriter struct {
	to   io.Writer
	left int64
}

func (w *countWriter) Write(p []byte) (int, error) {
	if w.left -= int64(len(p)); w.left < 0 {
		return 0, fmt.Errorf("%w: the sitemap gets too large; without snapshots (--summaries) it is smaller", ErrLimit)
	}
	return w.to.Write(p)
}

// replace writes a file beside its place and puts it there, durably. at becomes
// its time, or a later second than it had: static servers make an ETag of a
// file's time and size, and two contents must not share one.
func (x *Export) replace(name string, at time.Time, most int64, write func(io.Writer) error) error {
	to := x.path(name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	if old, err := os.Stat(to); err == nil && at.Unix() <= old.ModTime().Unix() {
		at = old.ModTime().Truncate(time.Second).Add(time.Second)
	}
	f, err := os.CreateTemp(filepath.Dir(to), ".arc-*")
	if err != nil {
		return err
	}
	err = write(&countWriter{f, most})
	if err == nil {
		err = errors.Join(f.Chmod(0o644), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Chtimes(f.Name(), at, at)
	}
	if err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	return durable.SyncDir(filepath.Dir(to))
}

// both writes a file compressed and then plain: who finds the plain one finds
// that which belongs to it.
func (x *Export) both(name string, at time.Time, write func(io.Writer) error) error {
	err := x.replace(name+".gz", at, maxSitemap, func(to io.Writer) error {
		z, err := gzip.NewWriterLevel(to, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(write(&countWriter{z, maxSitemap}), z.Close())
	})
	if err != nil {
		return err
	}
	return x.replace(name, at, maxSitemap, write)
}

// companions writes the descriptor and the policy, unless they are so already.
func (x *Export) companions() error {
	descriptor, err := Descriptor(x.base + SitemapFile)
	if err != nil {
		return err
	}
	files := map[string][]byte{DescriptorFile: descriptor}
	if x.config.Policy != nil {
		if files[policyFile], err = x.config.Policy.Marshal(); err != nil {
			return err
		}
	}
	for name, data := range files {
		if old, err := os.ReadFile(x.path(name)); err == nil && string(old) == string(data) {
			continue
		}
		err := x.replace(name, x.generated(), MaxPolicy, func(to io.Writer) error {
			_, err := to.Write(data)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep removes deltas that are too old, a policy and a form of the sitemap that
// are no longer asked for, and what an export that ended early left behind.
func (x *Export) sweep() error {
	oldest := x.generated().Add(-maxDeltaDays * 24 * time.Hour)
	return fs.WalkDir(os.DirFS(x.config.Dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if folder := name + "/"; name != "." && folder != deltaFolder && folder != path.Dir(policyFile)+"/" {
				return fs.SkipDir
			}
			return nil
		}
		day, isDelta := isDeltaFile(strings.TrimSuffix(name, ".gz"))
		isDelta = isDelta && (day.Before(oldest) || x.config.Forget && x.report.Removed > 0 && strings.TrimSuffix(name, ".gz") != x.report.Delta)
		left := strings.HasPrefix(path.Base(name), ".arc-") && name != markFile
		switch {
		case left, isDelta, name == policyFile && x.config.Policy == nil, name == YAMLFile && !x.config.YAML:
			return os.Remove(x.path(name))
		}
		return nil
	})
}
