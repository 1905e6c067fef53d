package content_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/content"
)

func TestLimitsOnlyNarrow(t *testing.T) {
	names := []string{"a", "b", "c"}
	draw := rapid.Custom(func(t *rapid.T) (p content.Preferences) {
		for range rapid.IntRange(0, 3).Draw(t, "keepings") {
			p.KeepAtMost(content.Keeping{Days: rapid.Uint64Range(0, 5).Draw(t, "days"), Origin: "x"})
		}
		for range rapid.IntRange(0, 3).Draw(t, "approvals") {
			consumers := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "consumers")
			p.ApproveOnly(content.Approval{Consumers: consumers, Origin: rapid.SampledFrom(names).Draw(t, "origin")})
		}
		return p
	})
	rapid.Check(t, func(t *rapid.T) {
		p, q := draw.Draw(t, "p"), draw.Draw(t, "q")
		both, turned := p, q
		both.Join(q)
		turned.Join(p)
		if !slices.Equal(both.Lines(), turned.Lines()) {
			t.Fatalf("the order counts: %q and %q", both.Lines(), turned.Lines())
		}
		for _, name := range names {
			_, byP := p.Approves(name)
			_, byQ := q.Approves(name)
			if _, ok := both.Approves(name); ok != (byP && byQ) {
				t.Fatalf("%s is approved: %v; alone %v and %v", name, ok, byP, byQ)
			}
		}
		kept, limited := both.Keeping()
		for _, one := range []content.Preferences{p, q} {
			if k, ok := one.Keeping(); ok && (!limited || kept.Days > k.Days) {
				t.Fatalf("kept for %d days, where one says %d", kept.Days, k.Days)
			}
		}
	})
}
