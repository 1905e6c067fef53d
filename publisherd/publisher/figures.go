package publisher

import (
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// Figures are what an operator watches.
type Figures struct {
	Status Status
	Pulse  PulseFigures
	Store  durable.Metrics
	Disk   durable.Disk
	// Clock is nil, or ErrClock: grants that have ended would seem to be in force.
	Clock error
}

// Figures reads them all. While the disk does not answer it is not asked, and
// Disk alone is filled in.
func (p *Publisher) Figures() (Figures, error) {
	f := Figures{Disk: p.store.Disk()}
	if f.Disk.Stalled != nil {
		return f, nil
	}
	f.Pulse, f.Clock = p.pulse.read(), p.highest.behind(p.now())
	var err error
	if f.Store, err = p.store.Metrics(); err != nil {
		return f, err
	}
	f.Status, err = p.Status()
	return f, err
}

// GrantWords are what each grant allows, in words, by its series; those that cannot
// be read are left out, and Status says why.
func (p *Publisher) GrantWords() map[string][]string {
	words := make(map[string][]string)
	rels, err := Relationships(p.dir)
	if err != nil {
		return words
	}
	for _, r := range rels {
		words[r.Series] = grants.Describe(r.Pair)
	}
	return words
}
