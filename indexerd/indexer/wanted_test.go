package indexer

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTheQueueIsWhatIsWanted compares the queue with a map, through whatever
// adds to it, takes from it, bounds it, or begins a journal epoch.
func TestTheQueueIsWhatIsWanted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rapid.Check(t, func(t *rapid.T) {
		b := r.x.store.NewBatch()
		defer b.Close()
		rec := &seriesRecord{SID: 9, JournalEpoch: 1}
		type turn struct {
			class byte
			order uint64
		}
		want := make(map[string]turn)
		revision, wishes := uint64(0), uint64(0)
		url := func() string { return fmt.Sprint(site, rapid.IntRange(0, 9).Draw(t, "page")) }
		check := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		ordered := func(oldest bool) []string {
			var all []string
			for u := range want {
				all = append(all, u)
			}
			slices.SortFunc(all, func(x, y string) int {
				a, b := want[x], want[y]
				by := cmp.Compare(a.order, b.order)
				if a.class == classSignalled && !oldest {
					by = -by
				}
				return cmp.Or(cmp.Compare(a.class, b.class), by)
			})
			return all
		}
		t.Repeat(map[string]func(*rapid.T){
			"signal": func(*rapid.T) {
				u := url()
				revision++
				check(rec.want(b, classSignalled, revision, wantedPage{URL: u, Revision: revision}))
				if old, ok := want[u]; !ok || old.class == classSignalled {
					want[u] = turn{classSignalled, revision}
				}
			},
			"ask": func(*rapid.T) {
				u := url()
				wishes++
				check(rec.want(b, classAsked, wishes, wantedPage{URL: u}))
				want[u] = turn{classAsked, wishes}
			},
			"come": func(t *rapid.T) {
				u, through := url(), rapid.Uint64Range(0, revision).Draw(t, "through")
				_, err := rec.unwant(b, sha256.Sum256([]byte(u)), through)
				check(err)
				if old, ok := want[u]; ok && (old.class == classAsked || old.order <= through) {
					delete(want, u)
				}
			},
			"trim": func(t *rapid.T) {
				most, oldest := rapid.Uint64Range(1, 9).Draw(t, "most"), rapid.Bool().Draw(t, "oldest")
				check(rec.trim(b, most, oldest))
				all := ordered(oldest)
				for i := len(all) - 1; i >= 0 && uint64(len(want)) > most && want[all[i]].class == classSignalled; i-- {
					delete(want, all[i])
				}
			},
			"turn": func(*rapid.T) {
				check(rec.turn(b))
				for u, w := range want {
					if w.class == classSignalled {
						delete(want, u)
					}
				}
			},
			"": func(t *rapid.T) {
				oldest := rapid.Bool().Draw(t, "order")
				var got []string
				check(rec.eachWanted(b, oldest, func(_ []byte, p *wantedPage) (bool, error) {
					got = append(got, p.URL)
					return true, nil
				}))
				if all := ordered(oldest); !slices.Equal(got, all) || rec.Wanted != uint64(len(want)) {
					t.Fatalf("the queue is %q, counted as %d, want %q", got, rec.Wanted, all)
				}
			},
		})
	})
}
