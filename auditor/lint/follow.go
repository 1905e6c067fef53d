package lint

import (
	"cmp"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// ParseChecker reads a Checker that was written as JSON. Errors: ErrState.
func ParseChecker(raw []byte) (*Checker, error) {
	s := state{Checker: raw}
	return s.checker()
}

// Judge is Take for an entry that others have found authentic and in its place: it
// judges set and future too, and returns what is broken.
func (c *Checker) Judge(o *envelope.Object, e *translog.Entry, now time.Time) []Violation {
	var all []Violation
	c.broke = func(index uint64, rule Rule, format string, args ...any) {
		all = append(all, Violation{index, rule, fmt.Sprintf(format, args...)})
	}
	if o.IssuedAt.After(now.Add(envelope.Skew)) {
		c.broke(o.Sequence, Future, "it was issued at %s, and it is %s", envelope.At(o.IssuedAt), envelope.At(now))
	}
	if f := cmp.Or(members(e), lasting(o), set(e)); f != nil {
		c.broke(o.Sequence, Rule(f.Rule), "%v", f.Err)
	}
	c.Take(o, e)
	return all
}

// Encode writes the Checker, for ParseChecker.
func (c *Checker) Encode() ([]byte, error) { return json.Marshal(c, json.Deterministic(true)) }
