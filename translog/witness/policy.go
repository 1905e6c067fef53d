package witness

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
)

// Bounds of a policy. C2SP tlog-policy asks for at least 32 of each.
const (
	MaxPolicy = 64 << 10 // octets of the file
	maxOfEach = 32       // logs, witnesses and groups
)

// A Witness is one that a policy names.
type Witness struct {
	Name string // in the policy file; the one in its signatures is Key.Name
	Key  Key
	URL  string // submission prefix without trailing slash; empty if it was not given
}

// A Policy says whose cosignatures a checkpoint must have. It does not change.
type Policy struct {
	// Witnesses are in the order of the file.
	Witnesses []Witness

	logs   []string // verifier keys; empty: for every log
	quorum *node    // nil: none
}

// A node is a witness or a group. Each has at most one parent, so that nothing
// counts twice.
type node struct {
	witness   int // index in Policy.Witnesses, if members is empty
	threshold int
	members   []*node
	used      bool
}

// met reports whether the node is satisfied by the witnesses that has names.
// Members stand on earlier lines, so that no node is below itself.
func (n *node) met(has func(witness int) bool) bool {
	if len(n.members) == 0 {
		return has(n.witness)
	}
	count := 0
	for _, m := range n.members {
		if m.met(has) {
			count++
		}
	}
	return count >= n.threshold
}

func (n *node) contains(witness int) bool {
	if len(n.members) == 0 {
		return n.witness == witness
	}
	return slices.ContainsFunc(n.members, func(m *node) bool { return m.contains(witness) })
}

// parser is the state of ParsePolicy between two lines.
type parser struct {
	Policy
	names       map[string]*node
	groups      int
	quorumGiven bool
}

// ParsePolicy reads a policy file in the format of C2SP tlog-policy.
func ParsePolicy(file []byte) (*Policy, error) {
	if len(file) > MaxPolicy {
		return nil, fmt.Errorf("policy of %d octets, at most %d", len(file), MaxPolicy)
	}
	p := &parser{names: make(map[string]*node)}
	n := 0
	for line := range strings.Lines(string(file)) {
		n++
		if err := p.line(strings.TrimSuffix(line, "\n")); err != nil {
			return nil, fmt.Errorf("policy, line %d: %w", n, err)
		}
	}
	if !p.quorumGiven {
		return nil, errors.New("policy: there is no quorum line; \"quorum none\" asks for no witness")
	}
	return &p.Policy, nil
}

func (p *parser) line(line string) error {
	if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return errors.New("a control character")
	}
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
		return nil
	}
	switch args := fields[1:]; fields[0] {
	case "log":
		return p.log(args)
	case "witness":
		return p.witness(args)
	case "group":
		return p.group(args)
	case "quorum":
		return p.setQuorum(args)
	}
	return fmt.Errorf("unknown word %.40q, want log, witness, group or quorum", fields[0])
}

func (p *parser) log(args []string) error {
	if len(args) < 1 || len(args) > 2 || len(p.logs) == maxOfEach {
		return fmt.Errorf("want \"log VKEY [URL]\", and at most %d of them", maxOfEach)
	}
	if _, err := note.NewVerifier(args[0]); err != nil {
		return fmt.Errorf("verifier key %.120q: %w", args[0], err)
	}
	if slices.Contains(p.logs, args[0]) {
		return errors.New("this log stands there twice")
	}
	p.logs = append(p.logs, args[0])
	return nil
}

// name gives a new node its name.
func (p *parser) name(name string, n *node) error {
	if _, taken := p.names[name]; taken || name == "none" {
		return fmt.Errorf("the name %.80q is taken", name)
	}
	p.names[name] = n
	return nil
}

func (p *parser) witness(args []string) error {
	if len(args) < 2 || len(args) > 3 || len(p.Witnesses) == maxOfEach {
		return fmt.Errorf("want \"witness NAME VKEY [URL]\", and at most %d of them", maxOfEach)
	}
	w := Witness{Name: args[0]}
	var err error
	if w.Key, err = ParseKey(args[1]); err != nil {
		return err
	}
	for _, other := range p.Witnesses {
		if other.Key.pub == w.Key.pub || other.Key.name == w.Key.name && other.Key.hash == w.Key.hash {
			return fmt.Errorf("the key is that of %s", other.Name)
		}
	}
	if len(args) == 3 {
		if w.URL, err = parseURL(args[2]); err != nil {
			return err
		}
	}
	n := &node{witness: len(p.Witnesses)}
	p.Witnesses = append(p.Witnesses, w)
	return p.name(w.Name, n)
}

// parseURL accepts http and https without user, query or fragment.
func parseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" ||
		u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return "", fmt.Errorf("URL %.200q: want http(s)://HOST[:PORT][/PATH]", s)
	}
	return strings.TrimRight(s, "/"), nil
}

func (p *parser) group(args []string) error {
	if len(args) < 3 || p.groups == maxOfEach {
		return fmt.Errorf("want \"group NAME any|all|NUMBER MEMBER…\", and at most %d of them", maxOfEach)
	}
	g := &node{}
	for _, name := range args[2:] {
		m, ok := p.names[name]
		if !ok {
			return fmt.Errorf("no witness or group %.80q stands above", name)
		}
		if m.used {
			return fmt.Errorf("%.80q is a member already; each counts once", name)
		}
		m.used = true
		g.members = append(g.members, m)
	}
	switch args[1] {
	case "any":
		g.threshold = 1
	case "all":
		g.threshold = len(g.members)
	default:
		k, err := strconv.Atoi(args[1])
		if err != nil || strconv.Itoa(k) != args[1] || k < 1 || k > len(g.members) {
			return fmt.Errorf("threshold %.20q of %d members", args[1], len(g.members))
		}
		g.threshold = k
	}
	p.groups++
	return p.name(args[0], g)
}

func (p *parser) setQuorum(args []string) error {
	if len(args) != 1 || p.quorumGiven {
		return errors.New("want one line \"quorum NAME\"")
	}
	p.quorumGiven = true
	if args[0] == "none" {
		return nil
	}
	n, ok := p.names[args[0]]
	if !ok {
		return fmt.Errorf("no witness or group %.80q stands above", args[0])
	}
	p.quorum = n
	return nil
}

// WithQuorum is p with another quorum: any k of all its witnesses.
func (p *Policy) WithQuorum(k int) (*Policy, error) {
	if k < 1 || k > len(p.Witnesses) {
		return nil, fmt.Errorf("a quorum of %d, the policy names %d witnesses", k, len(p.Witnesses))
	}
	flat := &Policy{Witnesses: p.Witnesses, logs: p.logs, quorum: &node{threshold: k}}
	for i := range p.Witnesses {
		flat.quorum.members = append(flat.quorum.members, &node{witness: i})
	}
	return flat, nil
}

// None reports whether the policy asks for no cosignature at all.
func (p *Policy) None() bool { return p.quorum == nil }

// Covers reports whether the policy is for the log with this verifier key.
func (p *Policy) Covers(vkey string) bool { return len(p.logs) == 0 || slices.Contains(p.logs, vkey) }

// Counts reports whether the quorum may depend on witness i.
func (p *Policy) Counts(i int) bool { return p.quorum != nil && p.quorum.contains(i) }

// Met reports whether these cosignatures make the quorum.
func (p *Policy) Met(cosignatures []Cosignature) bool {
	return p.quorum == nil || p.quorum.met(func(i int) bool {
		return slices.ContainsFunc(cosignatures, func(c Cosignature) bool { return c.Key == p.Witnesses[i].Key })
	})
}
