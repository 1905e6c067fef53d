package translog

import (
	"sync"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// A stock is memory for values that are taken one after the other and given back all at
// once. A value that is taken is zero.
type stock[T any] struct {
	blocks [][]T
	taken  int
}

// inBlock is how many values a stock makes room for at once.
const inBlock = 16

func (s *stock[T]) take() *T {
	block, i := s.taken/inBlock, s.taken%inBlock
	if block == len(s.blocks) {
		s.blocks = append(s.blocks, make([]T, inBlock))
	}
	s.taken++
	return &s.blocks[block][i]
}

// reset takes back every value, and what it refers to.
func (s *stock[T]) reset() {
	for first := 0; first < s.taken; first += inBlock {
		clear(s.blocks[first/inBlock][:min(inBlock, s.taken-first)])
	}
	s.taken = 0
}

// A memory is what the proposals of a group, and their entries, are kept in until they
// are answered. The next group gets it then: what is new each time is far from the
// processor when it is written, and tens of thousands of entries a second are.
type memory struct {
	members stock[member]
	list    []*member    // of them
	places  []place      // of their entries
	bodies  stock[Entry] // of these

	mu   sync.Mutex
	pads []*envelope.Pad // of what is signed
}

var memories = sync.Pool{New: func() any { return new(memory) }}

var pads = sync.Pool{New: func() any { return new(envelope.Pad) }}

// pad is where the next entries are signed.
func (m *memory) pad() *envelope.Pad {
	p := pads.Get().(*envelope.Pad)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pads = append(m.pads, p)
	return p
}

// giveBack is for when nobody reads any of it any more, which was g's. Whoever does not
// know that leaves it to the collector.
func (m *memory) giveBack(g *group) {
	clear(g.members)
	clear(g.places)
	m.list, m.places = g.members, g.places
	m.members.reset()
	m.bodies.reset()
	for _, p := range m.pads {
		p.Reset()
		pads.Put(p)
	}
	clear(m.pads)
	m.pads = m.pads[:0]
	memories.Put(m)
}
