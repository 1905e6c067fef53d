package gitroot

import (
	"compress/zlib"
	"context"
	"crypto"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/hash"
)

// A server that is told what we hold sends a thin pack: of what has changed, in
// part as deltas of objects that are not in the pack. So it need not send any
// history by which the two would be connected, and it does not matter when the
// commits were made.

// readBase returns an object of the state, from which a delta starts.
func (r *Repository) readBase(h plumbing.Hash) (plumbing.ObjectType, []byte, error) {
	r.storageMu.Lock()
	defer r.storageMu.Unlock()
	o, err := r.object(plumbing.AnyObject, h, r.limits.Object)
	if err != nil {
		return plumbing.InvalidObject, nil, err
	}
	data, err := readAll(o)
	return o.Type(), data, err
}

// complete adds to a thin pack the objects that only the state holds, so that it
// can be read without any other. They count as if they had been sent. One that
// the state does not hold either may be in the pack, which shows later.
func (r *Repository) complete(ctx context.Context, f *os.File, j judgement) error {
	if len(j.bases) == 0 {
		return nil
	}
	end, err := f.Seek(-packTrailer, io.SeekEnd)
	if err != nil {
		return err
	}
	added := uint32(0)
	for h := range j.bases {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		kind, data, err := r.readBase(h)
		if errors.Is(err, plumbing.ErrObjectNotFound) {
			continue
		} else if err != nil {
			return err
		}
		if j.octets += int64(len(data)); j.octets > r.limits.Inflated {
			return fmt.Errorf("%w: objects of more than %d octets together", ErrTooLarge, r.limits.Inflated)
		}
		if err := writeObject(f, kind, data); err != nil {
			return err
		}
		if end, err = f.Seek(0, io.SeekCurrent); err != nil {
			return err
		}
		if end > r.limits.Pack {
			return fmt.Errorf("%w: a pack of more than %d octets, with what its deltas start from", ErrTooLarge, r.limits.Pack)
		}
		added++
	}
	if added == 0 {
		return nil
	}
	if err := f.Truncate(end); err != nil {
		return err
	}
	if _, err := f.WriteAt(binary.BigEndian.AppendUint32(nil, j.objects+added), packHeader-4); err != nil {
		return err
	}
	return seal(ctx, f)
}

// writeObject writes an object as it stands in a pack.
func writeObject(w io.Writer, kind plumbing.ObjectType, data []byte) error {
	size := len(data)
	head := []byte{byte(kind)<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		head[len(head)-1] |= 0x80
		head = append(head, byte(size&0x7f))
	}
	if _, err := w.Write(head); err != nil {
		return err
	}
	z := zlib.NewWriter(w)
	if _, err := z.Write(data); err != nil {
		return err
	}
	return z.Close()
}

// seal writes the checksum behind a pack.
func seal(ctx context.Context, f *os.File) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	sum := hash.New(crypto.SHA1)
	if _, err := io.Copy(sum, &seeker{ctx, f}); err != nil {
		return err
	}
	_, err := f.Write(sum.Sum(nil))
	return err
}
