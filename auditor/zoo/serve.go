package zoo

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// Handler is the public side of the log, as far as an auditor asks.
func (l *Log) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := l.answer(r)
		if l.lie.Serve != nil && body != nil {
			body = l.lie.Serve(r.URL.Path, body)
		}
		if body == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write(body)
	})
}

// answer is nil for what is not there.
func (l *Log) answer(r *http.Request) []byte {
	size, path := l.newest.Sequence, r.URL.Path
	last := strings.TrimSuffix(path[strings.LastIndexByte(path, '/')+1:], ".json")
	n, _ := strconv.ParseUint(last, 10, 64) // other paths have no number there
	switch {
	case path == "/checkpoint":
		return l.note
	case path == "/signed-checkpoint.json":
		return l.newest.Raw
	case strings.HasPrefix(path, "/signed-checkpoint/") && l.published[n] != nil:
		return l.published[n].Raw
	case strings.HasPrefix(path, "/entry/") && n < size:
		return l.Entries[n]
	case path == "/proof/inclusion":
		index, of := query(r, "index"), query(r, "size")
		return l.canonical(&translog.InclusionProof{Hashes: translog.Hashes(l.Tree.Inclusion(index, of)), Index: index, Size: of})
	case path == "/proof/consistency":
		from, to := query(r, "from"), query(r, "to")
		return l.canonical(&translog.ConsistencyProof{From: from, Hashes: translog.Hashes(l.Tree.Consistency(from, to)), To: to})
	case strings.HasPrefix(path, "/tile/"):
		return l.tile(strings.TrimPrefix(path, "/tile/"))
	}
	return nil
}

func query(r *http.Request, name string) uint64 {
	n, _ := strconv.ParseUint(r.FormValue(name), 10, 64) // an auditor asks for numbers alone
	return n
}

func (l *Log) canonical(v any) []byte {
	b, err := envelope.Canonical(v)
	if err != nil {
		l.t.Error(err)
	}
	return b
}

// tile answers for "<L>/<N>[.p/<W>]", where N is in groups of three digits.
func (l *Log) tile(path string) []byte {
	level, rest, _ := strings.Cut(path, "/")
	number, partial, _ := strings.Cut(rest, ".p/")
	n, err := strconv.ParseUint(strings.NewReplacer("x", "", "/", "").Replace(number), 10, 64)
	width := translog.TileWidth
	if partial != "" {
		width, _ = strconv.Atoi(partial) // 0 is answered with nothing
	}
	if err != nil {
		return nil
	}
	first := int(n) * translog.TileWidth
	if level == "entries" {
		if first+width > len(l.Entries) {
			return nil
		}
		if l.starts != nil {
			return l.bundles[l.starts[first]:l.starts[first+width]]
		}
		size := 2 * width
		for _, raw := range l.Entries[first : first+width] {
			size += len(raw)
		}
		b := make([]byte, 0, size)
		for _, raw := range l.Entries[first : first+width] {
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(raw))), raw...)
		}
		return b
	}
	at, err := strconv.Atoi(level)
	if err != nil || at >= len(l.levels) || first+width > len(l.levels[at]) {
		return nil
	}
	var b []byte
	for _, h := range l.levels[at][first : first+width] {
		b = append(b, h[:]...)
	}
	return b
}

// TilePath is where the public side has a bundle of entries or a tile.
func TilePath(level string, n uint64, width int) string {
	path := fmt.Sprintf("/tile/%s/%03d", level, n)
	if width < translog.TileWidth {
		path += fmt.Sprintf(".p/%d", width)
	}
	return path
}
