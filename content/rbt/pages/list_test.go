package pages

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
	"github.com/uzpif-oi/uzpif-oi/content/rbt/walk"
)

// TestAListIsBounded: what a million entries leave behind is a row each, whatever
// their publisher calls them and however many roots have failed.
func TestAListIsBounded(t *testing.T) {
	var l list
	var many []error
	for i := range 32 {
		many = append(many, fmt.Errorf("root %d: %s", i, strings.Repeat("x", 300)))
	}
	failed := walk.Item{Entry: rbt.Entry{Href: "../a.md"}, Err: &rbt.Error{Category: rbt.VerificationFailed, Err: errors.Join(many...)}}
	if err := l.take(nil, failed); err != nil {
		t.Fatal(err)
	}
	k := l.skipped[0]
	if k.Location != "../a.md" {
		t.Errorf("what leads nowhere is told of as %q", k.Location)
	}
	if len(k.Reason) > maxReason+10 || len(k.Err.Error()) > maxReason+10 || rbt.CategoryOf(k.Err) != rbt.VerificationFailed {
		t.Errorf("a reason of %d octets is kept, and an error of %d: %v", len(k.Reason), len(k.Err.Error()), k.Err)
	}
	long := walk.Item{Path: strings.Repeat("x", 4<<10), Ignored: true}
	n := 0
	for ; n < 1_000_000; n++ {
		if err := l.take(nil, long); errors.Is(err, rbt.ErrLimit) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if most := maxList / len(long.Path); n > most || n < most/2 {
		t.Errorf("%d names of %d octets are held", n, len(long.Path))
	}
}
