package serve

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// worthIt bounds what is compressed while a request waits, in octets. Above,
// compressing would take more memory than it is worth; below, more time. The upper
// bound is also the largest window that RFC 9659 lets a zstd coding have.
const worthItFrom, worthItTo = 256, 8 << 20

// compressors keeps what compresses, for the next request.
type compressors struct {
	gzips sync.Pool // of *gzip.Writer
	zstds sync.Pool // of *zstd.Encoder
}

// of returns the body in the coding that the client likes best, or nil if that is not
// worth it.
func (c *compressors) of(p *Representation, a accepted) (body io.ReadSeeker, coding string, err error) {
	if p.Gzip != nil && a.gzip > 0 {
		return p.Gzip, "gzip", nil // it is there, and costs nothing
	}
	size, err := p.Content.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, "", err
	}
	if _, err := p.Content.Seek(0, io.SeekStart); err != nil {
		return nil, "", err
	}
	if size < worthItFrom || size > worthItTo {
		return nil, "", nil
	}
	pack := c.gzip
	if coding = "gzip"; a.zstd > 0 && a.zstd >= a.gzip {
		pack, coding = c.zstd, "zstd"
	}
	packed, err := pack(p.Content)
	if err != nil {
		return nil, "", err
	}
	return bytes.NewReader(packed), coding, nil
}

func (c *compressors) gzip(plain io.Reader) ([]byte, error) {
	var b bytes.Buffer
	z, _ := c.gzips.Get().(*gzip.Writer)
	if z == nil {
		z = gzip.NewWriter(&b)
	}
	defer c.gzips.Put(z)
	z.Reset(&b)
	if _, err := io.Copy(z, plain); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}

func (c *compressors) zstd(plain io.Reader) ([]byte, error) {
	raw, err := io.ReadAll(plain)
	if err != nil {
		return nil, err
	}
	z, _ := c.zstds.Get().(*zstd.Encoder)
	if z == nil {
		z, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(worthItTo))
		if err != nil {
			return nil, err
		}
	}
	defer c.zstds.Put(z)
	return z.EncodeAll(raw, nil), nil
}

// accepted is how much a client likes the codings that are made here; 0: not at all.
type accepted struct{ gzip, zstd float64 }

func (a accepted) any() bool { return a.gzip > 0 || a.zstd > 0 }

// codings reads Accept-Encoding. A star stands for gzip alone, which whoever sends it
// is sure to know.
func codings(h http.Header) accepted {
	weights := map[string]float64{}
	for part := range strings.SplitSeq(strings.Join(h.Values("Accept-Encoding"), ","), ",") {
		coding, parameters, _ := strings.Cut(part, ";")
		weight := 1.0
		if _, q, ok := strings.Cut(strings.ToLower(parameters), "q="); ok {
			weight, _ = strconv.ParseFloat(strings.TrimSpace(q), 64) // what is no number is zero
		}
		weights[strings.ToLower(strings.TrimSpace(coding))] = weight
	}
	a := accepted{weights["gzip"], weights["zstd"]}
	if _, named := weights["gzip"]; !named {
		a.gzip = weights["*"]
	}
	return a
}
