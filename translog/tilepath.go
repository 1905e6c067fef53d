package translog

import (
	"fmt"
	"strconv"
	"strings"
)

// entriesLevel stands for the entry bundles among the levels of a tilePath.
const entriesLevel = -1

// A tilePath is what C2SP tlog-tiles writes behind "tile/": a level, or
// "entries", the number of the tile in groups of three digits, and the width of
// a partial tile.
type tilePath struct {
	level int
	index uint64
	width int // 1 to tileWidth
}

// The largest index has six groups of digits: more than any tree of 2^53-1
// entries has tiles.
const maxGroups = 6

func (p tilePath) String() string {
	level := "entries"
	if p.level != entriesLevel {
		level = strconv.Itoa(p.level)
	}
	n := fmt.Sprintf("%03d", p.index%1000)
	for rest := p.index / 1000; rest > 0; rest /= 1000 {
		n = fmt.Sprintf("x%03d/%s", rest%1000, n)
	}
	if p.width == tileWidth {
		return level + "/" + n
	}
	return fmt.Sprintf("%s/%s.p/%d", level, n, p.width)
}

// parseTilePath accepts exactly what String prints, for levels 0 to 63.
func parseTilePath(s string) (tilePath, error) {
	bad := fmt.Errorf("malformed tile path %.60q", s)
	p := tilePath{width: tileWidth}
	level, rest, ok := strings.Cut(s, "/")
	if !ok || len(s) > 64 {
		return p, bad
	}
	if level == "entries" {
		p.level = entriesLevel
	} else if n, err := strconv.ParseUint(level, 10, 8); err == nil && n < 64 {
		p.level = int(n)
	} else {
		return p, bad
	}
	if number, width, partial := strings.Cut(rest, ".p/"); partial {
		n, err := strconv.ParseUint(width, 10, 8)
		if err != nil || n == 0 {
			return p, bad
		}
		p.width, rest = int(n), number
	}
	groups := strings.Split(rest, "/")
	if len(groups) > maxGroups {
		return p, bad
	}
	for _, g := range groups {
		n, err := strconv.ParseUint(strings.TrimPrefix(g, "x"), 10, 16)
		if err != nil || n > 999 {
			return p, bad
		}
		p.index = p.index*1000 + n
	}
	if p.String() != s { // x where it belongs, three digits, no zeros in front
		return p, bad
	}
	return p, nil
}
