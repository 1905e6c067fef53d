package indexer

import (
	"crypto/sha256"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// stopBehind lets n steps of a deletion come, and none behind them.
func stopBehind(n int64) func() error {
	var steps atomic.Int64
	return func() error {
		if steps.Add(1) > n {
			return errStopped
		}
		return nil
	}
}

// goOn opens the rig anew, with nothing in the way.
func (r *rig) goOn() {
	r.before = nil
	r.close()
	r.open()
}

// TestDeletionResumes ends the indexer between any two steps of a deletion,
// and finds the same outcome behind it.
func TestDeletionResumes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		scope grants.Scope // zero: the whole series
		want  []string
		left  uint64
	}{
		{name: "a whole series", want: []string{"revoke-ack/stopped 40", "delete-ack/revoked 40"}},
		{
			name: "some of its pages", scope: must[grants.Scope](t)(grants.PrefixScope(site + "old/")),
			want: []string{"revoke-ack/stopped 30", "delete-ack/revoked 30"}, left: 10,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for n := range int64(9) {
				r := newRigWith(t, stopBehind(n))
				p := r.example()
				s := p.series("docs-1", site, nil)
				c := p.session(s)
				c.push(s, append(puts("words", urls(site+"old/", 20)...), puts("words", urls(site+"new/", 5)...)...)...)
				c.push(s, append(puts("words", urls(site+"old/more/", 10)...), puts("words", urls(site+"new/more/", 5)...)...)...)
				body := s.pair.Grant.Revoke(grants.DispositionDelete)
				if tt.scope.Prefixes != nil {
					body = s.pair.Grant.RevokeScope(tt.scope, grants.DispositionDelete)
				}
				rev := p.revocation(body)
				p.revoke(rev)
				r.eventually("the deletion to come to a stop", func() bool {
					r.x.tend(t.Context())
					_, pending, err := r.x.acknowledgements(rev.Object.ID)
					return err == nil && (pending == 1 || n >= 6)
				})
				r.goOn()
				if got := s.acked(rev, p.settled(rev), s.root()); !slices.Equal(got, tt.want) {
					t.Fatalf("stopped behind step %d: acknowledged %q, want %q", n, got, tt.want)
				}
				rec, _, _ := r.stateOf(s)
				if rec.Pages != tt.left || rec.Deletions != 0 {
					t.Errorf("stopped behind step %d: %d pages, %d deletions left", n, rec.Pages, rec.Deletions)
				}
				r.close()
			}
		})
	}
}

func TestDeletionProvesEachPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s, c := r.example().held(5)
	c.push(s, change{url: urls(site, 1)[0], text: "newer"})
	rev := s.p.revocation(s.pair.Grant.Revoke(grants.DispositionDelete))
	s.p.settled(rev)
	all := urls(site, 5)
	slices.SortFunc(all, func(a, b string) int {
		x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
		return slices.Compare(x[:], y[:])
	})
	var leaves [][32]byte
	for _, u := range all {
		leaves = append(leaves, s.key.Leaf(translog.OpTombstone, s.epoch, s.pages[u].revision, u, [32]byte{}).Hash())
	}
	entries := r.log()
	last := entries[len(entries)-1]
	if want := translog.SetOf(leaves); last.Objects != want {
		t.Errorf("the entry is over %v, want %v", last.Objects, want)
	}
	kept := must[[][32]byte](t)(r.x.tlog.Released().SetLeaves(uint64(len(entries) - 1)))
	if !slices.Equal(kept, leaves) {
		t.Error("the leaves that are kept are other ones")
	}
}

// TestDeletedPayloadCannotBeRead tries every key that is left on every segment
// that ever was.
func TestDeletedPayloadCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, partial := range []bool{false, true} {
		r := newRig(t)
		p := r.example()
		s := p.series("docs-1", site, nil)
		c := p.session(s)
		const secret = "qX7vR2mK9pLwZ4tN8bYcJ3hGfD6sA1eU5oIxTz0VnMkQyWrEaBgHjPlSdFcCuKiO"
		c.push(s, change{url: site + "old/secret", text: secret}, change{url: site + "kept", text: "kept words"})
		rec, _, _ := r.stateOf(s)
		type sealed struct{ key, value []byte }
		var segments []sealed
		for kv, err := range r.x.store.Scan(sidKey('G', rec.SID), sidKey('G', rec.SID+1)) {
			if err != nil {
				t.Fatal(err)
			}
			segments = append(segments, sealed{slices.Clone(kv.Key), slices.Clone(kv.Value)})
		}
		body := s.pair.Grant.Revoke(grants.DispositionDelete)
		if partial {
			body = s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(site+"old/")), grants.DispositionDelete)
		}
		p.settled(p.revocation(body))

		if err := r.readable(s, site+"old/secret"); !errors.Is(err, grants.ErrRevoked) {
			t.Errorf("the deleted page: %v", err)
		}
		if err := r.readable(s, site+"kept"); partial && err != nil {
			t.Errorf("the page that stays: %v", err)
		}
		for _, seg := range segments {
			if _, err := r.x.store.Get(seg.key); err == nil {
				t.Error("the segment is still there")
			}
			for generation := range uint32(4) {
				a, err := r.x.keys.aead(p.local.Name(), s.name, generation, false)
				if err != nil {
					continue
				}
				if _, err := unseal(a, p.local.Name(), s.name, segmentNumber(seg.key), seg.value); err == nil {
					t.Errorf("key %d opens a copy of the segment", generation)
				}
			}
		}
		left := must[[]os.DirEntry](t)(os.ReadDir(filepath.Join(r.dir, "keys", "data")))
		if want := map[bool]int{false: 0, true: 1}[partial]; len(left) != want {
			t.Errorf("%d data keys are left, want %d", len(left), want)
		}
		r.close()
		if where := filesWith(t, r.dir, secret); where != nil {
			t.Errorf("the payload stands in the clear in %q", where)
		}
	}
}

// TestNoDeletionIsAcknowledgedBeforeItsKeyIsGone ends the indexer behind each step, up to
// the acknowledgement: whoever has that finds no key of what was deleted.
func TestNoDeletionIsAcknowledgedBeforeItsKeyIsGone(t *testing.T) {
	t.Parallel()
	for _, partial := range []bool{false, true} {
		acknowledged := false
		for n := int64(0); !acknowledged; n++ {
			r := newRigWith(t, stopBehind(n))
			p := r.example()
			s := p.series("docs-1", site, nil)
			p.session(s).push(s, puts("words", site+"old/a", site+"new/a")...)
			body := s.pair.Grant.Revoke(grants.DispositionDelete)
			if partial {
				body = s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(site+"old/")), grants.DispositionDelete)
			}
			rev := p.revocation(body)
			p.revoke(rev)
			r.x.tend(t.Context())
			_, pending, err := r.x.acknowledgements(rev.Object.ID)
			if err != nil {
				t.Fatal(err)
			}
			acknowledged = pending == 0
			_, err = os.Stat(filepath.Join(r.dir, "keys", "data", dataKeyName(p.local.Name(), s.name, 0)))
			if acknowledged && !errors.Is(err, os.ErrNotExist) {
				t.Errorf("of a part: %t; acknowledged behind step %d, and its key is there: %v", partial, n, err)
			}
			if acknowledged && n < 3 {
				t.Errorf("of a part: %t; acknowledged behind %d steps", partial, n)
			}
			r.close()
		}
	}
}

func TestPartialRevocationReachesItsPagesAlone(t *testing.T) {
	t.Parallel()
	for _, d := range []grants.Disposition{grants.DispositionStop, grants.DispositionDelete} {
		r := newRig(t)
		p := r.example()
		s := p.series("docs-1", site, nil)
		c := p.session(s)
		c.push(s, append(puts("words", urls(site+"old/", 3)...), puts("words", urls(site+"new/", 2)...)...)...)
		stood := s.root()
		rev := p.revocation(s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(site+"old/")), d))
		want := []string{"revoke-ack/stopped 3"}
		if d == grants.DispositionDelete {
			want = append(want, "delete-ack/revoked 3")
		}
		p.revoke(rev)
		if got := s.acked(rev, p.settled(rev), stood); !slices.Equal(got, want) {
			t.Errorf("%s: acknowledged %q, want %q", d, got, want)
		}
		if d == grants.DispositionDelete {
			for _, u := range urls(site+"old/", 3) {
				delete(s.pages, u)
			}
			told := c.next().GetAcknowledgements() // the live session is told, unasked
			if told == nil || told.Pending != 0 {
				t.Errorf("told %v", told)
			}
		}
		if err := r.readable(s, site+"old/page-0001"); !errors.Is(err, grants.ErrRevoked) {
			t.Errorf("%s: a page that is reached: %v", d, err)
		}
		if err := r.readable(s, site+"new/page-0001"); err != nil {
			t.Errorf("%s: a page that is not: %v", d, err)
		}
		again := c.deliver(s.parcel(puts("words", site+"new/x", site+"old/x")...).pack())
		if again.Refused.GetReason() != string(grants.ErrRevoked) {
			t.Errorf("%s: offered again: %v", d, again.Refused)
		}
		c.push(s, puts("words", site+"new/x")...)
		if err := r.readable(s, site+"new/x"); err != nil {
			t.Errorf("%s: a page that came later: %v", d, err)
		}
	}
}

func TestNothingIsTakenWhileADeletionIsUnderWay(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, stopBehind(1))
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	c.push(s, append(puts("words", urls(site+"old/", 3)...), puts("words", site+"new")...)...)
	rev := p.revocation(s.pair.Grant.RevokeScope(must[grants.Scope](t)(grants.PrefixScope(site+"old/")), grants.DispositionDelete))
	p.revoke(rev)
	answer := c.deliver(s.parcel(puts("words", site+"other")...).pack())
	if f := answer.Refused; f.GetReason() != string(grants.ErrRevoked) || f.GetRetryMs() == 0 {
		t.Errorf("refused %v", f)
	}
	r.goOn()
	p.settled(rev)
	for _, u := range urls(site+"old/", 3) {
		delete(s.pages, u)
	}
	var result *oiv1.BatchResult
	if result = p.session(s).push(s, puts("words", site+"other")...); result.Refused != nil {
		t.Error(result.Refused)
	}
}
