package lint

import "github.com/uzpif-oi/uzpif-oi/translog"

// A count holds upper bounds of how many pages of a collection can be there, by
// what the log says. They are three, since the log does not say all: a payload
// whose retention ends may be acknowledged after its page came again, and is
// counted a second time when a revocation that came before its end is carried
// out; and a put that is refused drops, unsaid, what was held before.
type count struct {
	// Payloads: included, and not acknowledged as gone but by a revocation.
	Payloads uint64 `json:"payloads"`
	// Deletable: included, and not acknowledged as gone but by their retention.
	Deletable uint64 `json:"deletable"`
	// Offered: in the state, whatever was decided about them.
	Offered uint64 `json:"offered"`
}

// held is the most pages that can be held.
func (n *count) held() uint64 { return min(n.Payloads, n.Deletable) }

// pages judges how many pages the entry decides upon.
func (c *Checker) pages(index uint64, e *translog.Entry, n *count) {
	k, most := e.Objects.Count, uint64(0)
	switch e.Status {
	case translog.Accepted, translog.Removed, translog.GrantExpired, translog.Stopped:
		most = n.held()
	case translog.Rebound, translog.OutOfScope:
		most = n.Offered
	case translog.Retention:
		most = n.Payloads
	case translog.Revoked:
		most = n.Deletable
	}
	bounded := e.Status != translog.Refused && e.Status != translog.Reconciled && e.Decision != translog.Include
	if bounded && k > most {
		c.broke(index, Pages, "%s/%s of %d pages, where at most %d can be", e.Decision, e.Status, k, most)
	}
	n.count(e)
}

// count adds what the entry does.
func (n *count) count(e *translog.Entry) {
	k := e.Objects.Count
	switch e.Status {
	case translog.Accepted:
		if e.Decision == translog.Include {
			n.Payloads, n.Deletable, n.Offered = n.Payloads+k, n.Deletable+k, n.Offered+k
		}
	case translog.Refused:
		n.Offered += k
	case translog.Removed:
		n.Payloads, n.Deletable, n.Offered = less(n.Payloads, k), less(n.Deletable, k), less(n.Offered, k)
	case translog.Retention:
		n.Payloads = less(n.Payloads, k)
	case translog.Revoked:
		n.Deletable, n.Offered = less(n.Deletable, k), less(n.Offered, k)
	case translog.Rebound:
		n.Offered = k
		n.Deletable = min(n.Deletable, k)
	case translog.OutOfScope:
		n.Offered = less(n.Offered, k)
		n.Deletable = min(n.Deletable, n.Offered)
	}
}

func less(a, b uint64) uint64 { return a - min(a, b) }
