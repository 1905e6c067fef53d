package publisher

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// Bounds of a list. Its items are held while it is read in and written; to push
// under it takes 68 octets an item.
const (
	maxListed    = 1 << 20
	maxListBytes = 256 << 20
	maxListLine  = 1 << 20
)

// WarnLeftOut tells of lines of a list that lie outside the scope's prefixes.
const WarnLeftOut grants.WarningCode = "left-out"

// A List is what a scope names beside its prefixes: the URLs of a feed, or the
// digests of a hash set.
type List struct {
	Scope   grants.Scope // which is for it
	LeftOut int          // lines that the prefixes do not hold

	items []string // ascending, once each: URLs, or digests as they are printed
}

// ReadList reads a list for a scope of type t within the prefixes of frame: one
// URL or digest a line, or the lines that `publisherd source scan --json` prints,
// which have both. Empty lines, and those that begin with "#", say nothing. URLs
// are brought into canonical form.
func ReadList(r io.Reader, t grants.ScopeType, frame grants.Scope) (*List, error) {
	l := &List{Scope: frame}
	l.Scope.Type, l.Scope.ID = t, ""
	left := int64(maxListBytes)
	lines := bufio.NewScanner(io.LimitReader(r, maxListBytes+1))
	lines.Buffer(nil, maxListLine)
	for n := 1; lines.Scan(); n++ {
		if left -= int64(len(lines.Bytes())) + 1; left < 0 || len(l.items) >= maxListed {
			return nil, fmt.Errorf("list, line %d: a list has at most %d items and %d MiB", n, maxListed, maxListBytes>>20)
		}
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		if err := l.take(line); err != nil {
			return nil, fmt.Errorf("list, line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	slices.Sort(l.items)
	l.items = slices.Compact(l.items)
	return l, l.close()
}

// A listLine is what is read of a line of `source scan --json`.
type listLine struct {
	URL    string        `json:"url"`
	Digest envelope.Hash `json:"digest"`
	Pages  *uint64       `json:"pages"` // of the last line, which names no page
}

func (l *List) take(line string) error {
	var page listLine
	switch {
	case line[0] == '{':
		if err := json.Unmarshal([]byte(line), &page); err != nil {
			return err
		}
		if page.URL == "" && page.Pages != nil {
			return nil
		}
		if page.URL == "" || page.Digest.IsZero() {
			return errors.New("it has no url and digest")
		}
	case l.Scope.Type == grants.InFeed:
		page.URL = line
	default:
		d, err := parseDigest(line)
		if err != nil {
			return err
		}
		page.Digest = d
	}
	if page.URL != "" {
		url, err := content.CanonicalURL(page.URL)
		if err != nil {
			return err
		}
		if l.Scope.Match(url) != nil {
			l.LeftOut++
			return nil
		}
		page.URL = url
	}
	if l.Scope.Type == grants.InFeed {
		l.items = append(l.items, page.URL)
	} else {
		l.items = append(l.items, page.Digest.String())
	}
	return nil
}

// parseDigest reads a SHA-256 in hex, with or without the name of the function.
func parseDigest(s string) (envelope.Hash, error) {
	if !strings.HasPrefix(s, "sha256:") {
		s = "sha256:" + s
	}
	return envelope.ParseHash(s)
}

// close makes the scope of what was read. A hash set without members is none; a
// feed may be empty.
func (l *List) close() error {
	if l.Scope.Type == grants.InFeed {
		return l.Scope.Validate()
	}
	digests := make([]envelope.Hash, len(l.items))
	for i, s := range l.items {
		d, err := envelope.ParseHash(s)
		if err != nil {
			return err
		}
		digests[i] = d
	}
	scope, err := grants.HashScope(digests, l.Scope.Prefixes...)
	scope.Query = l.Scope.Query
	l.Scope = scope
	return err
}

// listed names the list.
func (l *List) listed() grants.Listed {
	if l.Scope.Type == grants.HashSet {
		return l.Scope.Set()
	}
	list := new(grants.List)
	for _, url := range l.items {
		list.Add([]byte(url))
	}
	return list.Listed()
}

// warnings are what its owner should know of a list.
func (l *List) warnings() []grants.Warning {
	if l.LeftOut == 0 {
		return nil
	}
	return []grants.Warning{{Code: WarnLeftOut, Detail: fmt.Sprintf("%d lines of the list lie outside the scope's prefixes and were left out.", l.LeftOut)}}
}

// listPath is where the list of a series with that root is kept.
func listPath(dir, series string, root envelope.Hash) string {
	return filepath.Join(dir, "grants", "lists", series, hex.EncodeToString(root[:]))
}

// write keeps the list, one item a line, before anything that is signed names
// it. The list before stays: a push under it may have begun.
func (l *List) write(dir, series string, before envelope.Hash) error {
	root := l.listed().Root
	var text strings.Builder
	for _, it := range l.items {
		text.WriteString(it)
		text.WriteByte('\n')
	}
	path := listPath(dir, series, root)
	if err := durable.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return err
	}
	kept, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	for _, f := range kept {
		if name := f.Name(); name != hex.EncodeToString(root[:]) && name != hex.EncodeToString(before[:]) {
			err = errors.Join(err, os.Remove(filepath.Join(filepath.Dir(path), name)))
		}
	}
	return err
}

// readListed reads a list back as far as paths need it. It holds one item at a
// time beside their hashes.
func readListed(dir, series string, t grants.ScopeType, want grants.Listed) (*grants.List, error) {
	f, err := os.Open(listPath(dir, series, want.Root))
	if err != nil {
		return nil, fmt.Errorf("list of series %s; read it in again with grant feed or grant renew: %w", series, err)
	}
	defer f.Close()
	list := new(grants.List)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxListLine)
	for n := 0; lines.Scan(); n++ {
		if n >= maxListed {
			return nil, fmt.Errorf("list of series %s: more than %d items", series, maxListed)
		}
		item := lines.Bytes()
		if t == grants.HashSet {
			d, err := envelope.ParseHash(lines.Text())
			if err != nil {
				return nil, fmt.Errorf("list of series %s: %w", series, err)
			}
			item = d[:]
		}
		list.Add(item)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("list of series %s: %w", series, err)
	}
	if list.Listed() != want {
		return nil, fmt.Errorf("list of series %s is not the one that was signed; read it in again with grant feed or grant renew", series)
	}
	return list, nil
}
