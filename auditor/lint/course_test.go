package lint_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A model is an indexer with one series, as far as its log shows it.
type model struct {
	*rapid.T
	s       *zoo.Script
	series  string
	grant   zoo.Grant // under which the state is held
	number  int
	epoch   uint64
	pages   map[string]*row
	purges  []purge         // that are not in the log yet
	ended   bool            // the grant has expired, or all of it was revoked
	waiting string          // a revocation of a part whose deletion is under way
	since   map[string]bool // pages purged since it came
}

// A row is one page of the state.
type row struct{ held bool }

type purge struct {
	grant zoo.Grant
	pages int
}

func (m *model) batch() {
	if m.ended || m.waiting != "" {
		return
	}
	counts := make(map[translog.Decision]int)
	chosen := rapid.SliceOfNDistinct(rapid.IntRange(0, 9), 1, 5, rapid.ID[int]).Draw(m.T, "pages")
	for _, i := range chosen {
		url := fmt.Sprintf("%d/%d", i%2, i)
		r := m.pages[url]
		held := r != nil && r.held
		d := translog.Include
		switch op := rapid.IntRange(0, 3).Draw(m.T, "op"); {
		case op == 0: // taken away
			if d = translog.Exclude; held {
				d = translog.DeleteAck
			}
			delete(m.pages, url)
		case op == 1: // refused
			d = translog.Exclude
			m.pages[url] = &row{}
		default:
			if held {
				d = translog.Update
			}
			m.pages[url] = &row{held: true}
		}
		counts[d]++
	}
	if rapid.IntRange(0, 9).Draw(m.T, "journal") == 0 {
		m.epoch++
		m.s.Journal(m.grant, m.epoch)
	}
	var parts []zoo.Part
	for _, d := range []translog.Decision{translog.Include, translog.Update, translog.DeleteAck, translog.Exclude} {
		if counts[d] > 0 {
			parts = append(parts, zoo.Part{Decision: d, Pages: counts[d]})
		}
	}
	m.s.Batch(m.grant, uint64(len(chosen)), parts...)
}

// beginPurge drops payloads; the log says so later.
func (m *model) beginPurge() {
	n := 0
	for url, r := range m.pages {
		if r.held && strings.HasPrefix(url, "0/") {
			r.held = false
			n++
			if m.since != nil {
				m.since[url] = true
			}
		}
	}
	if n > 0 {
		m.purges = append(m.purges, purge{m.grant, n})
	}
}

func (m *model) endPurge() {
	if len(m.purges) > 0 {
		m.s.Say(m.purges[0].grant, translog.DeleteAck, translog.Retention, zoo.Named(m.purges[0].pages))
		m.purges = m.purges[1:]
	}
}

// renew rebinds to another grant, now and then a narrower one.
func (m *model) renew() {
	if m.waiting != "" || len(m.s.Drafts) == 0 {
		return
	}
	m.number++
	m.grant = zoo.Grant{Series: m.series, Name: fmt.Sprint(m.series, m.number), Life: 1000 * time.Hour}
	left := 0
	if rapid.Bool().Draw(m.T, "narrower") {
		for url := range m.pages {
			if strings.HasPrefix(url, "1/") {
				delete(m.pages, url)
				left++
			}
		}
	}
	m.ended = false
	m.s.Rebind(m.grant, uint64(left), uint64(len(m.pages)))
}

// revoke withdraws pages, or all; what goes is deleted at once or later.
func (m *model) revoke() {
	if m.ended || m.waiting != "" {
		return
	}
	part := fmt.Sprint("part ", len(m.s.Drafts))
	prefix := "0/"
	if rapid.IntRange(0, 3).Draw(m.T, "whole") == 0 {
		part, prefix, m.ended = "", "", true
	}
	n := 0
	for url, r := range m.pages {
		if r.held && strings.HasPrefix(url, prefix) {
			n++
		}
	}
	id := fmt.Sprint("revocation ", len(m.s.Drafts))
	m.s.Stop(m.grant, id, part, uint64(n))
	if rapid.Bool().Draw(m.T, "with deletion") {
		m.waiting, m.since = id+"|"+part+"|"+prefix, make(map[string]bool)
	}
}

// carryOut ends the deletion that is under way.
func (m *model) carryOut() {
	if m.waiting == "" {
		return
	}
	word := strings.Split(m.waiting, "|")
	n := 0
	for url, r := range m.pages {
		if strings.HasPrefix(url, word[2]) {
			if r.held || m.since[url] {
				n++
			}
			delete(m.pages, url)
		}
	}
	m.s.Delete(m.grant, word[0], word[1], n)
	m.waiting, m.since = "", nil
}

func (m *model) expire() {
	if m.ended || m.waiting != "" || len(m.s.Drafts) == 0 {
		return
	}
	n := 0
	for _, r := range m.pages {
		if r.held {
			n++
		}
	}
	m.ended = true
	m.s.Say(m.grant, translog.Exclude, translog.GrantExpired, zoo.Counted(uint64(n)))
}

// TestNoHonestCourseIsAccused has indexers of a model do what they may, in any
// order, and finds nothing. The model knows more than its log says: payloads that
// are gone before it is said, and rows that leave unsaid.
func TestNoHonestCourseIsAccused(t *testing.T) {
	s := stage.New(t, 1)
	rapid.Check(t, func(rt *rapid.T) {
		script := zoo.NewScript(s.Indexer, now.Add(-10*time.Hour))
		var all []*model
		for i := range 2 {
			series := fmt.Sprint("series ", i)
			m := &model{T: rt, s: script, series: series, epoch: 10, pages: make(map[string]*row)}
			m.grant = zoo.Grant{Series: series, Name: series, Life: 1000 * time.Hour}
			script.Journal(m.grant, m.epoch)
			m.batch()
			all = append(all, m)
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			m := all[rapid.IntRange(0, 1).Draw(rt, "series")]
			steps := []func(){m.batch, m.batch, m.beginPurge, m.endPurge, m.renew, m.revoke, m.carryOut, m.expire}
			steps[rapid.IntRange(0, len(steps)-1).Draw(rt, "step")]()
		}
		if r := judge(t, zoo.New(t, s.Indexer, script.Drafts, []uint64{0, 1, 0}, now, zoo.Lie{}), options(s.Indexer)); !r.OK() {
			rt.Fatalf("accused:\n%s", r)
		}
	})
}
