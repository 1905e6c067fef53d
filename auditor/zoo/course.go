package zoo

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// life is how long a grant lasts that ends in the future.
const life = 1000 * time.Hour

// The grants of the course.
var grantsOfCourse = struct{ A1, A2, A3, B1, C1, D1, E1 Grant }{
	Grant{"a", "a1", life}, Grant{"a", "a2", life}, Grant{"a", "a3", life},
	Grant{"b", "b1", life}, Grant{"c", "c1", 14 * time.Minute}, Grant{"d", "d1", life},
	Grant{"e", "e1", life},
}

// The places of the course's entries that lies are about.
const (
	aInclude, aRefused, bInclude         = 0, 1, 2
	aUpdate, aRemoved, aRebound, aSecond = 3, 4, 5, 6
	aOutside, aRebound3                  = 7, 8
	aPartStop, aPartGone, aThird         = 9, 10, 11
	cInclude, cRetention, cExpired       = 12, 13, 14
	bStop, bGone                         = 15, 16
	dInclude, dReconciled, dThird, aLast = 17, 18, 19, 20

	eFirst, eSecond, eStop, eUnstopped = 21, 22, 23, 24
)

// Course is an honest course of events, in which everything happens that an
// indexer logs.
func Course(indexer *identity.Local, began time.Time) *Script {
	s, g := NewScript(indexer, began), grantsOfCourse
	s.Journal(g.A1, 77)
	s.Batch(g.A1, 6, Part{translog.Include, 5}, Part{translog.Exclude, 1})
	s.Journal(g.B1, 88)
	s.Batch(g.B1, 3, Part{translog.Include, 3})
	s.Batch(g.A1, 3, Part{translog.Update, 2}, Part{translog.DeleteAck, 1})
	s.Rebind(g.A2, 0, 5)
	s.Batch(g.A2, 2, Part{translog.Include, 2})
	s.Rebind(g.A3, 1, 6)
	s.Stop(g.A3, "of a part", "part", 1)
	s.Delete(g.A3, "of a part", "part", 1)
	s.Batch(g.A3, 1, Part{translog.Update, 1})
	s.Journal(g.C1, 99)
	s.Batch(g.C1, 4, Part{translog.Include, 4})
	s.Say(g.C1, translog.DeleteAck, translog.Retention, Named(1))
	s.Say(g.C1, translog.Exclude, translog.GrantExpired, Counted(3))
	s.Stop(g.B1, "of all", "", 3)
	s.Delete(g.B1, "of all", "", 3)
	s.Journal(g.D1, 5)
	s.Batch(g.D1, 2, Part{translog.Include, 2})
	s.Journal(g.D1, 6)
	s.Batch(g.D1, 2)
	s.Batch(g.D1, 1, Part{translog.Include, 1})
	s.Batch(g.A3, 1, Part{translog.Update, 1})
	s.Journal(g.E1, 111)
	s.Signal(g.E1, 40)
	s.Answer(g.E1, Part{translog.Include, 3})
	s.Signal(g.E1, 2)
	s.Answer(g.E1, Part{translog.Update, 1})
	s.Signal(g.E1, 1)
	s.Stop(g.E1, "of a page", "page", 1)
	s.Journal(g.E1, 112)
	s.Signal(g.E1, 9)
	s.Answer(g.E1, Part{translog.Update, 1})
	return s
}

// Sizes are those at which the course is published.
func Sizes() []uint64 { return []uint64{0, 2, 5, 9, 14, 25} }

// Honest is the course as a log, with a lie in it. It began an hour before now.
func Honest(t testing.TB, indexer *identity.Local, now time.Time, lie Lie) *Log {
	t.Helper()
	now = now.UTC().Truncate(time.Second)
	s := Course(indexer, now.Add(-time.Hour))
	if lie.Script != nil {
		lie.Script(s)
	}
	return New(t, indexer, s.Drafts, Sizes(), now, lie)
}
