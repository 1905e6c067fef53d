package arc

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/preferences"
)

// MaxPolicy is the greatest size of a policy, in octets.
const MaxPolicy = 256 << 10

// maxRetentionDays is a century: more is as good as no limit.
const maxRetentionDays = 36500

// maxConsumers is how many approved consumers of a policy are read.
const maxConsumers = 1000

// ErrPolicy is wrapped by every error about a policy that cannot be read. Nothing
// may then be taken for allowed.
var ErrPolicy = errors.New("malformed ARC policy")

// A Policy is what E.6 asks for at /.well-known/arc-policy.json: retention,
// access and approved consumers. The text leaves its members open; these are
// ours, and schema/policy.json has them.
type Policy struct {
	Site    string
	Updated time.Time // zero where absent

	RetentionDays int // 0: not stated
	RetentionNote string

	// Uses are what access.uses says, by purposes of ours, and the limits that
	// RetentionDays and Consumers are to them.
	Uses    preferences.Statement
	Rate    float64 // requests a second; 0 where absent
	Contact string
	Partner string // URL of an endpoint with authentication

	// Consumers are the approved ones; nil where the policy names none, and then
	// it approves nobody and forbids nobody.
	Consumers []string
}

// policyUses maps the words that access.uses may have: our own and those of the
// vocabularies that say the same.
var policyUses = map[string]string{
	"ai.train": content.PurposeAITrain, "train-ai": content.PurposeAITrain, "ai-train": content.PurposeAITrain, "train": content.PurposeAITrain,
	"search.index": content.PurposeSearchIndex, "search": content.PurposeSearchIndex, "index": content.PurposeSearchIndex,
	"rag.retrieve": content.PurposeRAGRetrieve, "ai-input": content.PurposeRAGRetrieve,
	"ai.summarise": content.PurposeAISummarise, "summarize": content.PurposeAISummarise,
	"search.snippet": content.PurposeSearchSnippet, "quote": content.PurposeSearchSnippet,
	"ai.embed": content.PurposeAIEmbed, "ai.finetune": content.PurposeAIFinetune, "archive": content.PurposeArchive,
}

// ReadPolicy reads a policy. Members that it does not know are passed over, and
// what the schema objects to is among odd. A use whose value is neither true nor
// false counts as denied: something was said that cannot be understood. place
// says where the policy stands, for the operator.
func ReadPolicy(r io.Reader, place string) (p Policy, odd []string, err error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxPolicy+1))
	if err != nil {
		return Policy{}, nil, err
	}
	if len(data) > MaxPolicy {
		return Policy{}, nil, fmt.Errorf("%w: more than %d octets", ErrPolicy, MaxPolicy)
	}
	d := policyReader{place: place}
	err = checkDepth(data, maxDepth)
	if err == nil {
		err = d.read(data)
	}
	if err != nil {
		return Policy{}, nil, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	return d.policy, d.odd, nil
}

// A policyReader reads one policy.
type policyReader struct {
	place  string
	policy Policy
	odd    []string
}

func (d *policyReader) note(format string, args ...any) {
	d.odd = append(d.odd, fmt.Sprintf(format, args...))
}

func (d *policyReader) read(data []byte) error {
	top, err := shallow([]byte(strings.TrimSpace(strings.TrimPrefix(string(data), "\uFEFF"))))
	if err != nil {
		return err
	}
	set, err := compiled()
	if err != nil {
		return err
	}
	line, err := canonicalObject(top)
	if err != nil {
		return err
	}
	found, err := violations(set.policy, line)
	if err != nil {
		return err
	}
	for _, v := range found {
		d.note("%s", v)
	}
	p := &d.policy
	p.Site = stringOf(top["site"])
	if s := stringOf(top["updated_at"]); s != "" {
		p.Updated, _, _ = content.ParseTime(s) // told above if it is none
	}
	d.retention(top)
	access := d.object(top, "access")
	p.Contact, p.Partner = stringOf(access["contact"]), stringOf(access["partner_endpoint"])
	if rate := stringOf(access["crawl_rate"]); rate != "" {
		if p.Rate, err = ParseRate(rate); err != nil {
			d.note("access: %v", err)
		}
	}
	d.uses(access)
	return d.consumers(top["approved_consumers"])
}

// object returns the members of a member; none if it is no object, which the
// schema has told.
func (d *policyReader) object(m map[string]jsontext.Value, name string) map[string]jsontext.Value {
	if len(m[name]) == 0 {
		return nil
	}
	inner, err := shallow(m[name])
	if err != nil {
		return nil
	}
	return inner
}

// retention reads for how long content may be kept. What is said and cannot be
// understood is read as the shortest.
func (d *policyReader) retention(top map[string]jsontext.Value) {
	raw := top["retention"]
	retention := d.object(top, "retention")
	d.policy.RetentionNote = stringOf(retention["note"])
	days := retention["max_days"]
	if raw.Kind() == '{' {
		raw = days
	}
	if len(raw) == 0 || raw.Kind() == 'n' {
		return
	}
	kept := content.Keeping{Origin: "retention.max_days of " + d.place}
	switch n, err := strconv.ParseFloat(string(days), 64); {
	case err == nil && n >= 1:
		d.policy.RetentionDays = int(math.Floor(min(n, maxRetentionDays)))
		kept.Days = uint64(d.policy.RetentionDays)
	default:
		d.note("retention says no number of days that can be counted, and is read as none")
	}
	d.policy.Uses.Preferences.KeepAtMost(kept)
}

func (d *policyReader) uses(access map[string]jsontext.Value) {
	raw, said := access["uses"]
	if !said || raw.Kind() == 'n' {
		return
	}
	uses, err := shallow(raw)
	if err != nil {
		d.note("access.uses is no object, and is read as a denial of all uses")
		for _, name := range []string{"ai.train", "search.index", "rag.retrieve", "ai.embed", "archive"} {
			d.policy.Uses.State(name, content.No, "access.uses of "+d.place+" cannot be understood")
		}
		return
	}
	for name, v := range sorted(uses) {
		purpose, known := policyUses[strings.ToLower(name)]
		answer := content.No
		switch string(v) {
		case "true":
			answer = content.Yes
		case "null":
			answer = content.Unknown
		case "false":
		default:
			d.note("access.uses.%.60s is neither true nor false, and is read as a denial", name)
		}
		if !known {
			d.note("access.uses.%.60s has no purpose here", name)
			continue
		}
		d.policy.Uses.State(purpose, answer, fmt.Sprintf("access.uses.%s of %s is %.40s", name, d.place, v))
	}
}

func (d *policyReader) consumers(v jsontext.Value) error {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil
	}
	var all []jsontext.Value
	if err := json.Unmarshal(v, &all); err != nil {
		return fmt.Errorf("approved_consumers is no list, so that nobody knows whom it approves")
	}
	if len(all) > maxConsumers {
		return fmt.Errorf("%d approved consumers, at most %d", len(all), maxConsumers)
	}
	d.policy.Consumers = []string{}
	for _, c := range all {
		if s := stringOf(c); s != "" {
			d.policy.Consumers = append(d.policy.Consumers, s)
		}
	}
	d.policy.Uses.Preferences.ApproveOnly(content.Approval{Consumers: d.policy.Consumers, Origin: "approved_consumers of " + d.place})
	return nil
}

// Marshal writes the policy in the form of RFC 8785.
func (p Policy) Marshal() ([]byte, error) {
	top := map[string]any{"arc_policy_version": "1"}
	put := func(m map[string]any, name string, v any, said bool) {
		if said {
			m[name] = v
		}
	}
	put(top, "site", p.Site, p.Site != "")
	put(top, "updated_at", formatTime(p.Updated), !p.Updated.IsZero())
	retention := make(map[string]any)
	put(retention, "max_days", p.RetentionDays, p.RetentionDays > 0)
	put(retention, "note", p.RetentionNote, p.RetentionNote != "")
	put(top, "retention", retention, len(retention) > 0)
	uses := make(map[string]any)
	for _, s := range p.Uses.Preferences.Stated() {
		if answer, _ := p.Uses.Preferences.About(s.Purpose); answer != content.Unknown {
			uses[s.Purpose] = answer == content.Yes
		}
	}
	access := make(map[string]any)
	put(access, "uses", uses, len(uses) > 0)
	put(access, "crawl_rate", FormatRate(p.Rate), p.Rate > 0)
	put(access, "contact", p.Contact, p.Contact != "")
	put(access, "partner_endpoint", p.Partner, p.Partner != "")
	put(top, "access", access, len(access) > 0)
	put(top, "approved_consumers", p.Consumers, p.Consumers != nil)
	return canonicalObject(top)
}

// Says tells an operator what the policy says beside its uses and their limits,
// which are among Uses.
func (p Policy) Says() (all []string) {
	if p.RetentionNote != "" {
		all = append(all, fmt.Sprintf("the policy says of retention: %.300q", p.RetentionNote))
	}
	if p.Partner != "" {
		all = append(all, fmt.Sprintf("the policy names an endpoint for partners: %.300q", p.Partner))
	}
	return all
}
