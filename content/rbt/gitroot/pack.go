package gitroot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

const (
	packHeader  = 12 // octets: PACK, version, number of objects
	packTrailer = 20
	temporary   = "tmp_" // begins the names of files that are not finished

	// maxChain is how many deltas may stand one upon the other: what they cost
	// grows with the square. Git itself makes 50, and 250 at most on request.
	maxChain = 1000
)

// receive writes a pack into the folder of packs, with its index. It takes three
// passes: onto disk, under the limit for packs; through all headers, under those
// for objects; and through all objects, by which each gets its name. Between the
// last two, complete adds what a thin pack lacks. The pack and then its index are
// durable and in place when receive returns without an error; after one, nothing
// is left of either. The error is errIncomplete where a delta starts from what is
// neither in the pack nor held.
func receive(ctx context.Context, folder string, r io.Reader, l Limits, complete func(context.Context, *os.File, judgement) error) (err error) {
	f, err := os.CreateTemp(folder, temporary+"pack_*")
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if err := download(ctx, f, r, l); err != nil {
		return err
	}
	j, err := judge(&seeker{ctx, f}, l)
	if err != nil {
		return err
	}
	if err := complete(ctx, f, j); err != nil {
		return err
	}
	writer := new(idxfile.Writer)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	parser, err := packfile.NewParser(packfile.NewScanner(&seeker{ctx, f}), writer)
	if err != nil {
		return err
	}
	checksum, err := parser.Parse()
	if errors.Is(err, packfile.ErrReferenceDeltaNotFound) {
		return fmt.Errorf("%w: a delta starts from one of them", errIncomplete)
	} else if err != nil {
		return packError(err)
	}
	index, err := writer.Index()
	if err != nil {
		return packError(err)
	}
	return install(f, filepath.Join(folder, "pack-"+checksum.String()), index)
}

// download writes the pack to disk, and refuses it at the first octet that says
// that it is too large.
func download(ctx context.Context, f *os.File, r io.Reader, l Limits) error {
	r = &seeker{ctx: ctx, Reader: r}
	var header [packHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return packError(err)
	}
	if string(header[:8]) != "PACK\x00\x00\x00\x02" {
		return fmt.Errorf("%w: %.16q is no pack of version 2", ErrProtocol, header[:8])
	}
	if n := binary.BigEndian.Uint32(header[8:]); uint64(n) > uint64(l.Objects) {
		return fmt.Errorf("%w: a pack of %d objects, at most %d", ErrTooLarge, n, l.Objects)
	}
	if _, err := f.Write(header[:]); err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(r, l.Pack-packHeader+1))
	switch {
	case n > l.Pack-packHeader:
		return fmt.Errorf("%w: a pack of more than %d octets", ErrTooLarge, l.Pack)
	case err != nil:
		return packError(err)
	}
	return nil
}

// A judgement is what is known of a pack after its headers were read.
type judgement struct {
	objects uint32
	octets  int64                  // of all objects, inflated
	bases   map[plumbing.Hash]bool // from which deltas start, by name
}

// judge reads the header of every object, and of every delta the size of what it
// makes.
func judge(r io.ReadSeeker, l Limits) (judgement, error) {
	j := judgement{bases: make(map[plumbing.Hash]bool)}
	if _, err := r.Seek(0, io.SeekStart); err != nil {
		return j, err
	}
	s := packfile.NewScanner(r)
	_, objects, err := s.Header()
	if err != nil {
		return j, packError(err)
	}
	j.objects = objects
	chains := make(map[int64]int) // of deltas alone, by offset
	for range objects {
		h, err := s.NextObjectHeader()
		if err != nil {
			return j, packError(err)
		}
		if h.Length > l.Object {
			return j, fmt.Errorf("%w: an object of %d octets, at most %d", ErrTooLarge, h.Length, l.Object)
		}
		var head deltaHead
		n, _, err := s.NextObject(&head)
		if err != nil {
			return j, packError(err)
		}
		size := h.Length
		switch h.Type {
		case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		case plumbing.OFSDeltaObject, plumbing.REFDeltaObject:
			if size, err = head.target(); err != nil {
				return j, err
			}
			j.octets += h.Length
			if h.Type == plumbing.REFDeltaObject {
				j.bases[h.Reference] = true
			}
			chains[h.Offset] = chains[h.OffsetReference] + 1
		default:
			return j, fmt.Errorf("%w: an object of type %d", ErrProtocol, h.Type)
		}
		j.octets += size
		switch {
		case n != h.Length:
			return j, fmt.Errorf("%w: an object of %d octets claims %d", ErrProtocol, n, h.Length)
		case chains[h.Offset] > maxChain:
			return j, fmt.Errorf("%w: a chain of more than %d deltas", ErrTooLarge, maxChain)
		case size > l.Object:
			return j, fmt.Errorf("%w: an object of %d octets, at most %d", ErrTooLarge, size, l.Object)
		case j.octets > l.Inflated:
			return j, fmt.Errorf("%w: objects of more than %d octets together", ErrTooLarge, l.Inflated)
		}
	}
	if _, err := s.Checksum(); err != nil {
		return j, packError(err)
	}
	if n, err := r.Seek(0, io.SeekEnd); err != nil || n < packHeader+packTrailer {
		return j, fmt.Errorf("%w: a pack of %d octets", ErrProtocol, n)
	}
	return j, nil
}

// A deltaHead keeps the beginning of what is written to it: two lengths of at
// most ten octets each.
type deltaHead struct {
	head [20]byte
	n    int
}

func (d *deltaHead) Write(p []byte) (int, error) {
	d.n += copy(d.head[d.n:], p)
	return len(p), nil
}

// target is the size that a delta says its result will have.
func (d *deltaHead) target() (int64, error) {
	_, n := binary.Uvarint(d.head[:d.n])
	if n <= 0 {
		return 0, fmt.Errorf("%w: a delta without a length", ErrProtocol)
	}
	size, m := binary.Uvarint(d.head[n:d.n])
	if m <= 0 || size > 1<<62 {
		return 0, fmt.Errorf("%w: a delta without a length", ErrProtocol)
	}
	return int64(size), nil
}

// install puts a pack that is finished, and its index, in place: the pack first,
// because an index stands for a pack that is there.
func install(f *os.File, name string, index *idxfile.MemoryIndex) error {
	if err := f.Sync(); err != nil {
		return err
	}
	i, err := os.CreateTemp(filepath.Dir(name), temporary+"idx_*")
	if err != nil {
		return err
	}
	defer os.Remove(i.Name()) // in vain, once it is renamed
	defer i.Close()
	if _, err := idxfile.NewEncoder(i).Encode(index); err != nil {
		return err
	}
	if err := i.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name+".pack"); err != nil {
		return err
	}
	if err := os.Rename(i.Name(), name+".idx"); err != nil {
		os.Remove(name + ".pack")
		return err
	}
	return syncFolder(filepath.Dir(name))
}

func syncFolder(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// packError keeps errors of the network and of the disk, and calls others the remote's.
func packError(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return err
	}
	return protocolError(err)
}

// A seeker ends reads when its context does.
type seeker struct {
	ctx context.Context
	io.Reader
}

func (s *seeker) Read(p []byte) (int, error) {
	if s.ctx.Err() != nil {
		return 0, context.Cause(s.ctx)
	}
	return s.Reader.Read(p)
}

func (s *seeker) Seek(offset int64, whence int) (int64, error) {
	return s.Reader.(io.Seeker).Seek(offset, whence)
}
