package tct

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/uzpif-oi/uzpif-oi/content"
)

// PolicyProfile is the value of the profile member that Append writes.
const PolicyProfile = "tct-policy-1"

// MaxPolicy is the greatest size of a policy descriptor, in octets.
const MaxPolicy = 256 << 10

// ErrPolicy is wrapped by every error about a policy descriptor that cannot be
// read. Nothing may then be taken for allowed.
var ErrPolicy = errors.New("malformed TCT policy descriptor")

// A Policy is a policy descriptor ("Publisher Policy Descriptor" of the draft).
type Policy struct {
	Profile            string
	Version            int64
	Effective, Updated time.Time // zero where absent

	TermsOfService, PaymentInfo, Contact string // URLs

	AllowAIInput, AllowAITrain, AllowSearchIndexing       content.Answer
	AttributionRequired, LinkBackRequired, NoticeRequired content.Answer
	MaxRequestsPerSecond, MaxRequestsPerDay               float64 // 0 where there is no limit
	Note                                                  string
}

// ReadPolicy reads a descriptor leniently: members that it does not know are
// passed over, and one of a wrong type is noted among odd. A purpose whose value
// is neither true, false nor null counts as denied: something was said that
// cannot be understood, and that is no permission.
func ReadPolicy(r io.Reader) (p Policy, odd []string, err error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxPolicy+1))
	if err != nil {
		return Policy{}, nil, err
	}
	if len(data) > MaxPolicy {
		return Policy{}, nil, fmt.Errorf("%w: more than %d octets", ErrPolicy, MaxPolicy)
	}
	top, err := members(bytes.TrimSpace(data))
	if err != nil {
		return Policy{}, nil, fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	d := policyReader{odd: &odd}
	d.text(top, "profile", &p.Profile)
	d.version(top, &p.Version)
	d.time(top, "effective", &p.Effective)
	d.time(top, "updated", &p.Updated)
	if p.Profile != PolicyProfile {
		d.note("profile is %.40q, not %s", p.Profile, PolicyProfile)
	}
	urls := d.object(top, "policy_urls")
	d.text(urls, "terms_of_service", &p.TermsOfService)
	d.text(urls, "payment_info", &p.PaymentInfo)
	d.text(urls, "contact", &p.Contact)
	purposes := d.object(top, "purposes")
	for _, m := range p.purposes() {
		*m.value = d.answer(purposes, m.name, content.No)
		if purposes == nil && !absent(top, "purposes") {
			*m.value = content.No
		}
	}
	requirements := d.object(top, "requirements")
	for _, m := range p.requirements() {
		*m.value = d.answer(requirements, m.name, content.Yes)
	}
	hints := d.object(top, "rate_hints")
	d.limit(hints, "max_requests_per_second", &p.MaxRequestsPerSecond)
	d.limit(hints, "max_requests_per_day", &p.MaxRequestsPerDay)
	d.text(hints, "note", &p.Note)
	return p, odd, nil
}

type answerMember struct {
	name    string
	purpose string // in the vocabulary of grants
	value   *content.Answer
}

func (p *Policy) purposes() []answerMember {
	return []answerMember{
		{"allow_ai_input", content.PurposeRAGRetrieve, &p.AllowAIInput},
		{"allow_ai_train", content.PurposeAITrain, &p.AllowAITrain},
		{"allow_search_indexing", content.PurposeSearchIndex, &p.AllowSearchIndexing},
	}
}

func (p *Policy) requirements() []answerMember {
	return []answerMember{
		{"attribution_required", "", &p.AttributionRequired},
		{"link_back_required", "", &p.LinkBackRequired},
		{"notice_required", "", &p.NoticeRequired},
	}
}

// Preferences returns what the descriptor at url says about purposes.
func (p Policy) Preferences(url string) content.Preferences {
	var prefs content.Preferences
	for _, m := range p.purposes() {
		prefs.State(m.purpose, *m.value, fmt.Sprintf("%s of %s is %t", m.name, url, *m.value == content.Yes))
	}
	return prefs
}

// Marshal writes the descriptor in the form of RFC 8785. Answers that are
// unknown, empty texts and zero times are left out; no limit is null.
func (p Policy) Marshal() ([]byte, error) {
	top := map[string]any{"profile": PolicyProfile, "version": p.Version}
	for name, t := range map[string]time.Time{"effective": p.Effective, "updated": p.Updated} {
		if !t.IsZero() {
			top[name] = t.UTC().Format(time.RFC3339)
		}
	}
	urls := make(map[string]any)
	for name, u := range map[string]string{"contact": p.Contact, "payment_info": p.PaymentInfo, "terms_of_service": p.TermsOfService} {
		if u != "" {
			urls[name] = u
		}
	}
	hints := map[string]any{"max_requests_per_second": nil, "max_requests_per_day": nil}
	for name, n := range map[string]float64{"max_requests_per_second": p.MaxRequestsPerSecond, "max_requests_per_day": p.MaxRequestsPerDay} {
		if n > 0 {
			hints[name] = n
		}
	}
	if p.Note != "" {
		hints["note"] = p.Note
	}
	top["policy_urls"], top["rate_hints"] = urls, hints
	top["purposes"], top["requirements"] = answers(p.purposes()), answers(p.requirements())
	raw, err := json.Marshal(top)
	if err != nil {
		return nil, fmt.Errorf("policy descriptor: %w", err)
	}
	v := jsontext.Value(raw)
	if err := v.Canonicalize(); err != nil {
		return nil, fmt.Errorf("policy descriptor: %w", err)
	}
	return v, nil
}

func answers(members []answerMember) map[string]any {
	said := make(map[string]any)
	for _, m := range members {
		if *m.value != content.Unknown {
			said[m.name] = *m.value == content.Yes
		}
	}
	return said
}

// A policyReader takes members out of objects, and notes what is odd.
type policyReader struct{ odd *[]string }

func (d policyReader) note(format string, args ...any) {
	*d.odd = append(*d.odd, fmt.Sprintf(format, args...))
}

// members reads one object; what its values hold is not looked at.
func members(data []byte) (map[string]jsontext.Value, error) {
	if jsontext.Value(data).Kind() != '{' {
		return nil, errors.New("no JSON object")
	}
	var m map[string]jsontext.Value
	return m, json.Unmarshal(data, &m)
}

// absent reports whether a member is missing or null.
func absent(m map[string]jsontext.Value, name string) bool {
	return len(m[name]) == 0 || m[name].Kind() == 'n'
}

func (d policyReader) object(m map[string]jsontext.Value, name string) map[string]jsontext.Value {
	if absent(m, name) {
		return nil
	}
	inner, err := members(m[name])
	if err != nil {
		d.note("%s is no object", name)
	}
	return inner
}

func (d policyReader) text(m map[string]jsontext.Value, name string, to *string) {
	if absent(m, name) {
		return
	}
	if m[name].Kind() != '"' {
		d.note("%s is no string", name)
		return
	}
	s, _ := jsontext.AppendUnquote(nil, m[name]) // m[name] has been read as valid
	*to = string(s)
}

func (d policyReader) time(m map[string]jsontext.Value, name string, to *time.Time) {
	var s string
	if d.text(m, name, &s); s == "" {
		return
	}
	t, odd, err := content.ParseTime(s)
	if err != nil || odd {
		d.note("%s is %.40q", name, s)
	}
	*to = t
}

func (d policyReader) version(m map[string]jsontext.Value, to *int64) {
	n, err := strconv.ParseInt(string(m["version"]), 10, 64)
	if err != nil {
		d.note("version is no integer")
		return
	}
	*to = n
}

// answer reads a boolean; another value stands for the answer that is safe.
func (d policyReader) answer(m map[string]jsontext.Value, name string, safe content.Answer) content.Answer {
	if absent(m, name) {
		return content.Unknown
	}
	switch m[name].Kind() {
	case 't':
		return content.Yes
	case 'f':
		return content.No
	}
	d.note("%s is neither true nor false", name)
	return safe
}

func (d policyReader) limit(m map[string]jsontext.Value, name string, to *float64) {
	if absent(m, name) {
		return
	}
	n, err := strconv.ParseFloat(string(m[name]), 64)
	if m[name].Kind() != '0' || err != nil || n < 0 || math.IsInf(n, 0) {
		d.note("%s is no number of requests", name)
		return
	}
	*to = n
}
