package grants

import (
	"crypto/subtle"
	"slices"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// AnnouncementLife is the longest that an announcement is valid, from issue to
// expiry. Together with the binding it leaves no room for replay.
const AnnouncementLife = 60 * time.Second

// MaxRequests is the most requests, grants or policies of one announcement.
const MaxRequests = 1024

// An Action is what a publisher asks for (UZPIF-OI 12.2).
type Action string

// The three actions of UZPIF-OI 12.2.
const (
	Discover Action = "discovery"  // pages that the indexer does not hold yet
	Refresh  Action = "refresh"    // changes and deletions
	Withdraw Action = "revocation" // revocations; needs no purpose
)

// A Request is what is asked for in one series.
type Request struct {
	Actions  []Action `json:"actions"`  // 1 to 3, ascending
	Purposes Purposes `json:"purposes"` // empty only beside Withdraw alone
	Scope    Scope    `json:"scope"`
	Series   string   `json:"series"`
}

// AnnouncementBody is the body of an announcement (UZPIF-OI 12.2). Fields
// stand in canonical order.
type AnnouncementBody struct {
	Exporter  Binding         `json:"exporter"` // of this very TLS session
	Grants    []envelope.Hash `json:"grants"`   // ids of all that are presented, ascending
	Nonce     Binding         `json:"nonce"`    // of the Welcome of this very stream
	Policies  []envelope.Hash `json:"policies"` // likewise
	Publisher envelope.Name   `json:"publisher"`
	Requests  []Request       `json:"requests"` // ascending by series
}

// Validate makes the checks that the schema leaves open. A body without grants
// is of the schema: CheckAnnouncement refuses it by ErrNoGrant.
func (b *AnnouncementBody) Validate() error {
	if b.Exporter.IsZero() || b.Nonce.IsZero() {
		return refuse(ErrMalformed, "exporter and nonce are never zero")
	}
	if n := max(len(b.Grants), len(b.Policies), len(b.Requests)); n > MaxRequests {
		return refuse(ErrMalformed, "%d requests, grants or policies, at most %d", n, MaxRequests)
	}
	if !ascending(b.Grants) || !ascending(b.Policies) {
		return refuse(ErrMalformed, "grants and policies stand in ascending order, once each")
	}
	if len(b.Requests) == 0 {
		return refuse(ErrMalformed, "nothing is requested")
	}
	for i, r := range b.Requests {
		if err := r.validate(); err != nil {
			return err
		}
		if i > 0 && b.Requests[i-1].Series >= r.Series {
			return refuse(ErrMalformed, "requests stand in ascending order of series, one each")
		}
	}
	return nil
}

func ascending(ids []envelope.Hash) bool {
	for i := 1; i < len(ids); i++ {
		if slices.Compare(ids[i-1][:], ids[i][:]) >= 0 {
			return false
		}
	}
	return true
}

func (r Request) validate() error {
	for i, a := range r.Actions {
		if a != Discover && a != Refresh && a != Withdraw || i > 0 && r.Actions[i-1] >= a {
			return refuse(ErrMalformed, "action %.40q is unknown or out of order", string(a))
		}
	}
	onlyWithdraws := len(r.Actions) == 1 && r.Actions[0] == Withdraw
	switch {
	case len(r.Actions) == 0:
		return refuse(ErrMalformed, "series %.80q: no action", r.Series)
	case len(r.Purposes) == 0 && !onlyWithdraws:
		return refuse(ErrPurpose, "series %.80q requests none", r.Series)
	}
	if err := checkName(r.Series, maxSeries); err != nil {
		return refuse(ErrMalformed, "series: %v", err)
	}
	if err := r.Purposes.Validate(); err != nil {
		return err
	}
	return r.Scope.Validate()
}

// An Announcement is an opened announcement.
type Announcement struct {
	Object *envelope.Object
	Body   AnnouncementBody
}

// SignAnnouncement signs b for AnnouncementLife from s.At. Announcements keep
// no stream state: s.Sequence may repeat.
func SignAnnouncement(b AnnouncementBody, s Stamp, signers ...*envelope.Signer) (*Announcement, error) {
	h := s.header(envelope.Announcement, b.Publisher)
	h.ExpiresAt = h.IssuedAt.Add(AnnouncementLife)
	o, err := sign(h, &b, signers)
	if err != nil {
		return nil, err
	}
	return &Announcement{o, b}, nil
}

// OpenAnnouncement opens an announcement: signature and time, publisher = peer
// = subject (ErrIssuer), audience = indexer (ErrAudience), and a life of at
// most AnnouncementLife (ErrLifetime). It takes CheckAnnouncement to admit it.
func OpenAnnouncement(raw []byte, v Verifier) (*Announcement, error) {
	o, b, err := open[AnnouncementBody](raw, envelope.Announcement, v)
	if err != nil {
		return nil, err
	}
	if err := v.checkParties(o, b.Publisher, v.Publisher); err != nil {
		return nil, err
	}
	if err := checkLifetime(o, AnnouncementLife); err != nil {
		return nil, err
	}
	return &Announcement{o, b}, nil
}

// A Session is what the indexer knows of the stream that it reads from.
type Session struct {
	Exporter           Binding // read from this connection's own TLS state
	Nonce              Binding // sent in this stream's Welcome, and nowhere else
	Publisher, Indexer envelope.Name
	Now                time.Time
}

// CheckAnnouncement decides whether an announcement is admitted: it is if no
// refusal is returned, and otherwise it is refused whole, because a publisher
// whose request is quietly narrowed takes its pages for indexed (UZPIF-OI
// 12.2). pairs are all that was presented in this stream or is held already,
// opened for the same session.
//
// It refuses an announcement made for another session or stream (ErrBinding),
// by or for others, or past its life; one without grants; a grant that is
// listed and not presented, or presented and not listed; a grant of others or
// not in force; a request of which the newest grant of its series does not
// cover scope and purposes; and scopes of two series that collide (ErrOverlap).
func CheckAnnouncement(a *Announcement, s Session, pairs []Pair) []Refusal {
	if err := s.checkAnnouncement(a); err != nil {
		return []Refusal{RefusalOf("", envelope.Hash{}, err)}
	}
	c := announcementCheck{session: s, newest: make(map[string]Pair)}
	for _, p := range pairs {
		c.grant(a, p)
	}
	c.listed(a, pairs)
	for _, r := range a.Body.Requests {
		c.request(r)
	}
	c.overlaps()
	return c.found
}

// checkAnnouncement checks the announcement itself, whatever it asks for.
func (s Session) checkAnnouncement(a *Announcement) error {
	// Both are compared in full and in constant time: they are secrets of the
	// session as long as it lasts.
	same := subtle.ConstantTimeCompare(a.Body.Exporter[:], s.Exporter[:]) & subtle.ConstantTimeCompare(a.Body.Nonce[:], s.Nonce[:])
	if same != 1 || s.Exporter.IsZero() || s.Nonce.IsZero() {
		return refuse(ErrBinding, "exporter or nonce is not this session's")
	}
	v := Verifier{Publisher: s.Publisher, Indexer: s.Indexer}
	if err := v.checkParties(a.Object, a.Body.Publisher, s.Publisher); err != nil {
		return err
	}
	if err := checkLifetime(a.Object, AnnouncementLife); err != nil {
		return err
	}
	if err := fresh(a.Object, s.Now); err != nil {
		return err
	}
	if len(a.Body.Grants) == 0 {
		return refuse(ErrNoGrant, "none is presented")
	}
	return nil
}

// announcementCheck gathers what is at fault with an announcement.
type announcementCheck struct {
	session Session
	newest  map[string]Pair // by series
	found   []Refusal
}

func (c *announcementCheck) refuse(p Pair, err error) {
	c.found = append(c.found, RefusalOf(p.Grant.Body.Series, p.Grant.Object.ID, err))
}

// grant takes one pair that is presented.
func (c *announcementCheck) grant(a *Announcement, p Pair) {
	v := Verifier{Publisher: c.session.Publisher, Indexer: c.session.Indexer}
	g := p.Grant
	if err := v.checkParties(g.Object, g.Body.Issuer, c.session.Publisher); err != nil {
		c.refuse(p, err)
		return
	}
	if err := p.Fresh(c.session.Now); err != nil {
		c.refuse(p, err)
		return
	}
	if !slices.Contains(a.Body.Grants, g.Object.ID) || !slices.Contains(a.Body.Policies, p.Policy.Object.ID) {
		c.refuse(p, refuse(ErrMalformed, "grant or policy is presented but not announced"))
		return
	}
	held, ok := c.newest[g.Body.Series]
	if !ok {
		c.newest[g.Body.Series] = p
		return
	}
	newer, err := held.Grant.Object.Position().Advance(g.Object.Position())
	switch {
	case ReasonOf(typed(err)) == ErrEquivocation:
		c.refuse(p, typed(err))
	case newer:
		c.newest[g.Body.Series] = p
	}
}

// listed finds ids that the announcement lists and nothing presents.
func (c *announcementCheck) listed(a *Announcement, pairs []Pair) {
	grants, policies := make(map[envelope.Hash]bool), make(map[envelope.Hash]bool)
	for _, p := range pairs {
		grants[p.Grant.Object.ID], policies[p.Policy.Object.ID] = true, true
	}
	for _, id := range a.Body.Grants {
		if !grants[id] {
			c.found = append(c.found, RefusalOf("", id, refuse(ErrNoGrant, "it is announced, but neither presented nor held")))
		}
	}
	for _, id := range a.Body.Policies {
		if !policies[id] {
			c.found = append(c.found, RefusalOf("", envelope.Hash{}, refuse(ErrPolicy, "%s is announced, but neither presented nor held", id)))
		}
	}
}

// request checks one request against the newest grant of its series.
func (c *announcementCheck) request(r Request) {
	p, ok := c.newest[r.Series]
	if !ok {
		c.found = append(c.found, RefusalOf(r.Series, envelope.Hash{}, refuse(ErrNoGrant, "none is in force for the series")))
		return
	}
	if !p.Grant.Body.Scope.Covers(r.Scope) {
		c.refuse(p, refuse(ErrScope, "the requested scope goes beyond the grant's"))
	}
	for _, purpose := range r.Purposes {
		if err := p.Permits(purpose, c.session.Now); err != nil {
			c.refuse(p, err)
		}
	}
}

// overlaps finds two series that would both hold some page.
func (c *announcementCheck) overlaps() {
	var seen []Pair
	for _, p := range c.newest {
		seen = append(seen, p)
	}
	slices.SortFunc(seen, func(a, b Pair) int {
		return slices.Compare([]byte(a.Grant.Body.Series), []byte(b.Grant.Body.Series))
	})
	for i, p := range seen {
		for _, q := range seen[:i] {
			if Collide(p.Grant.Body.Scope, q.Grant.Body.Scope) {
				c.refuse(p, refuse(ErrOverlap, "series %s", q.Grant.Body.Series))
			}
		}
	}
}
