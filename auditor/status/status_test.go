package status_test

import (
	"bytes"
	"net/http/httptest"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/status"
	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// of is the status of a grant of the course, by the log l.
func of(t *testing.T, s *stage.Stage, l *zoo.Log, grant string, change func(*status.Options)) *status.Report {
	t.Helper()
	server := httptest.NewServer(l.Handler())
	defer server.Close()
	c, err := remote.New(server.URL, s.Indexer.Card.Log.VKey, remote.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	o := status.Options{Card: s.Indexer.Card, Grant: zoo.Hash("grant " + grant), Now: now}
	if change != nil {
		change(&o)
	}
	r, err := status.Remote(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// revocation stands for one that was opened.
func revocation(name, grant string, d grants.Disposition, signed time.Time) *grants.Revocation {
	r := &grants.Revocation{Object: &envelope.Object{ID: zoo.Hash(name), IssuedAt: signed}}
	r.Body.Disposition = d
	r.Body.Target.GrantID = zoo.Hash("grant " + grant)
	return r
}

func TestNothingIsMissingInAnHonestLog(t *testing.T) {
	s := stage.New(t, 1)
	l := zoo.Honest(t, s.Indexer, now, zoo.Lie{})
	for _, tt := range []struct {
		grant   string
		state   status.State
		entries uint64
		held    uint64
	}{
		{"a1", status.Superseded, 4, 0},
		{"a3", status.Active, 6, 5},
		{"b1", status.Deleted, 3, 0},
		{"c1", status.Expired, 3, 3},
		{"d1", status.Active, 3, 3},
	} {
		r := of(t, s, l, tt.grant, nil)
		held := uint64(1 << 60)
		if r.Held != nil {
			held = *r.Held
		}
		if !r.OK() || r.State != tt.state || r.Entries != tt.entries || held != tt.held || r.Checked != uint64(len(l.Entries)) || len(r.Shown) == 0 {
			t.Errorf("%s: %s (%s), %d entries, %d held, want %s, %d, %d", tt.grant, r.State, r.Fault(), r.Entries, held, tt.state, tt.entries, tt.held)
		}
		if !strings.Contains(r.String(), r.State.Words()) {
			t.Errorf("%s: %s", tt.grant, r)
		}
	}
	if r := of(t, s, l, "of nobody", nil); r.State != status.Unknown || r.OK() || r.Terms != nil {
		t.Errorf("a grant that no entry names: %s, %q", r.State, r.Fault())
	}
}

func TestTheTimesOfARevocationAreTold(t *testing.T) {
	s := stage.New(t, 1)
	l := zoo.Honest(t, s.Indexer, now, zoo.Lie{})
	signed := now.Add(-time.Hour).Add(14 * time.Minute) // the stop is a minute later, the deletion two
	r := of(t, s, l, "b1", func(o *status.Options) {
		o.Revocations = []*grants.Revocation{
			revocation("revocation of all", "b1", grants.DispositionDelete, signed),
			revocation("of another grant", "a1", grants.DispositionDelete, signed),
		}
	})
	if len(r.Revocations) != 1 || !r.OK() {
		t.Fatalf("%+v, %s", r.Revocations, r.Fault())
	}
	w := r.Revocations[0]
	if w.Ack == nil || *w.Ack.After != 60 || w.Deletion == nil || *w.Deletion.After != 120 || *w.DeletionAfterAck != 60 || !w.Whole {
		t.Errorf("%+v, acknowledged %+v, deleted %+v", w, w.Ack, w.Deletion)
	}
	r = of(t, s, l, "a3", nil)
	if len(r.Revocations) != 1 || r.Revocations[0].Whole || r.Revocations[0].Ack.After != nil {
		t.Errorf("a partial one: %+v", r.Revocations)
	}
}

// without cuts the course before entry n.
func without(n int) zoo.Lie {
	return zoo.Lie{Drafts: func(all []zoo.Draft) []zoo.Draft { return all[:n] }, Publish: func([]uint64) []uint64 { return []uint64{0, uint64(n)} }}
}

func TestWhatIsMissingOrLateIsTold(t *testing.T) {
	s := stage.New(t, 1)
	signed := now.Add(-time.Hour).Add(14 * time.Minute)
	given := func(name, grant string, d grants.Disposition) func(*status.Options) {
		return func(o *status.Options) {
			o.Revocations, o.Within = []*grants.Revocation{revocation(name, grant, d, signed)}, 30*time.Second
		}
	}
	for _, tt := range []struct {
		name, grant string
		lie         zoo.Lie
		change      func(*status.Options)
		want        []status.Finding
	}{
		{"an acknowledgement and a deletion that came late", "b1", zoo.Lie{}, given("revocation of all", "b1", grants.DispositionDelete),
			[]status.Finding{{Kind: status.Late, What: "acknowledgement"}, {Kind: status.Late, What: "deletion"}}},
		{"a revocation that the log does not name", "d1", zoo.Lie{}, given("lost", "d1", grants.DispositionStop),
			[]status.Finding{{Kind: status.Missing, What: "acknowledgement"}}},
		{"one that may be named yet", "d1", zoo.Lie{}, func(o *status.Options) {
			o.Revocations = []*grants.Revocation{revocation("lost", "d1", grants.DispositionStop, now.Add(-time.Minute))}
		}, []status.Finding{{Kind: status.Open, What: "acknowledgement"}}},
		{"a deletion that was asked for and is not there", "b1", without(16), given("revocation of all", "b1", grants.DispositionDelete),
			[]status.Finding{{Kind: status.Late, What: "acknowledgement"}, {Kind: status.Missing, What: "deletion"}}},
		{"a deletion of which the log does not say that it was asked for", "b1", without(16), nil,
			[]status.Finding{{Kind: status.Open, What: "deletion"}}},
		{"a deletion that was not asked for", "b1", without(16), func(o *status.Options) {
			given("revocation of all", "b1", grants.DispositionStop)(o)
			o.Within = time.Hour
		}, nil},
		{"pages that may stay for a while", "b1", without(16), func(o *status.Options) {
			given("revocation of all", "b1", grants.DispositionRetention)(o)
			o.Within = time.Hour
		}, []status.Finding{{Kind: status.Open, What: "deletion"}}},
		{"an expiry that the log does not tell", "c1", without(14), func(o *status.Options) { o.Within = time.Minute },
			[]status.Finding{{Kind: status.Missing, What: "expiry"}}},
		{"one that it tells, a minute late at most", "c1", zoo.Lie{}, func(o *status.Options) { o.Within = 10 * time.Minute }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := of(t, s, zoo.Honest(t, s.Indexer, now, tt.lie), tt.grant, tt.change)
			got := slices.Clone(r.Findings)
			for i := range got {
				got[i].Detail = ""
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %+v, want %+v", r.Findings, tt.want)
			}
			bad := slices.ContainsFunc(tt.want, func(f status.Finding) bool { return f.Kind != status.Open })
			if r.OK() == bad {
				t.Errorf("OK is %v: %q", r.OK(), r.Fault())
			}
		})
	}
}

// TestALieUnderTheGrantIsAViolationOfIt runs over the zoo: each lie is told, and
// that an entry under the grant tells it is told too.
func TestALieUnderTheGrantIsAViolationOfIt(t *testing.T) {
	s, stranger := stage.New(t, 1), stage.New(t, 2).Indexer
	seen := 0
	for _, k := range zoo.Dishonest(stranger) {
		r := of(t, s, zoo.Honest(t, s.Indexer, now, k.Lie), "b1", nil)
		if r.OK() {
			t.Errorf("%s: nothing is found", k.Name)
		}
		if len(r.Violations) > 0 {
			seen++
		}
		if k.Name == "an entry after revoke-ack" && (len(r.Violations) != 1 || r.Violations[0].Rule != lint.Revoked || len(r.Shown) > 0) {
			t.Errorf("%s: %v, and elsewhere %v; shown: %q", k.Name, r.Violations, r.OfTheLog, r.Shown)
		}
	}
	if seen < 5 {
		t.Errorf("only %d lies are under the grant", seen)
	}
}

func TestAnEntryThatIsNotSoundIsNotCounted(t *testing.T) {
	s := stage.New(t, 1)
	const bInclude = 2
	l := zoo.Honest(t, s.Indexer, now, zoo.Lie{Octets: func(i int, raw []byte) []byte {
		if i != bInclude {
			return raw
		}
		raw = slices.Clone(raw)
		at := bytes.Index(raw, []byte(`"sig":"`)) + 20
		raw[at] ^= 1
		return raw
	}})
	r := of(t, s, l, "b1", nil)
	if r.Entries != 2 || r.OK() || len(r.Violations) != 1 || r.Violations[0].Rule != lint.Signature {
		t.Errorf("%d entries are counted, and %v found", r.Entries, r.Violations)
	}
}

func TestAStatusGoesOnWhereItStopped(t *testing.T) {
	s := stage.New(t, 1)
	script := zoo.NewScript(s.Indexer, now.Add(-900*time.Minute))
	g, other := zoo.Grant{Series: "a", Name: "a1", Life: 1000 * time.Hour}, zoo.Grant{Series: "b", Name: "b1", Life: 1000 * time.Hour}
	for i, one := range []zoo.Grant{g, other} {
		script.Journal(one, uint64(7+i))
		script.Batch(one, 3, zoo.Part{Decision: translog.Include, Pages: 3})
	}
	for i := 0; len(script.Drafts) < 700; i++ {
		script.Batch([]zoo.Grant{g, other}[i%2], uint64(1+i%3), zoo.Part{Decision: translog.Update, Pages: 1 + i%3})
	}
	make := func(n int) *zoo.Log {
		return zoo.New(t, s.Indexer, script.Drafts[:n], []uint64{0, 300, uint64(n)}[:1+n/300], script.Drafts[n-1].IssuedAt, zoo.Lie{})
	}
	dir := t.TempDir()
	at := func(n int, state string) func(*status.Options) { // when there were n entries
		return func(o *status.Options) { o.State, o.Now = state, script.Drafts[n-1].IssuedAt }
	}
	of(t, s, make(300), "a1", at(300, dir))
	got, want := of(t, s, make(700), "a1", at(700, dir)), of(t, s, make(700), "a1", at(700, ""))
	if got.ResumedAt != 256 || want.ResumedAt != 0 {
		t.Errorf("it goes on at %d, and anew at %d", got.ResumedAt, want.ResumedAt)
	}
	got.ResumedAt, got.LogURL, want.LogURL = 0, "", ""
	if !reflect.DeepEqual(got, want) || !got.OK() || len(got.Events) < 300 {
		t.Errorf("with a state:\n%s\nwithout:\n%s", got, want)
	}
	if r := of(t, s, make(700), "b1", at(700, dir)); !r.OK() || r.Entries != 350 || r.ResumedAt != 0 {
		t.Errorf("a second grant in the same folder: %s", r)
	}
	lie := zoo.Lie{Drafts: func(all []zoo.Draft) []zoo.Draft { all[3].Purposes = []string{"ai.train"}; return all }}
	forked := zoo.New(t, s.Indexer, script.Drafts[:700], []uint64{0, 700}, script.Drafts[699].IssuedAt, lie)
	if r := of(t, s, forked, "a1", at(700, dir)); r.OK() {
		t.Error("a history that was changed is not found")
	}
}

func TestALongHistoryIsCutIntoAFewSpans(t *testing.T) {
	s := stage.New(t, 1)
	for _, age := range []time.Duration{time.Minute, 40 * time.Hour, 80 * 24 * time.Hour} {
		script := zoo.NewScript(s.Indexer, now.Add(-age))
		g := zoo.Grant{Series: "a", Name: "a1", Life: 9999 * time.Hour * 24}
		script.Journal(g, 7)
		pages := uint64(0)
		for range 40 {
			script.Now = now.Add(-age).Add(age / 40 * time.Duration(len(script.Drafts))).Truncate(time.Second)
			script.Batch(g, 2, zoo.Part{Decision: translog.Include, Pages: 2})
			pages += 2
		}
		r := of(t, s, zoo.New(t, s.Indexer, script.Drafts, []uint64{0, 40}, now, zoo.Lie{}), "a1", nil)
		sum := uint64(0)
		for i, span := range r.OverTime {
			sum += span.Decided[translog.Include].Pages
			if i > 0 && !span.From.Equal(r.OverTime[i-1].To.Time) {
				t.Errorf("%s: span %d does not begin where the one before it ends", age, i)
			}
		}
		if n := len(r.OverTime); n > 60 || n < 3 || sum != pages {
			t.Errorf("%s: %d spans, with %d pages of %d", age, n, sum, pages)
		}
	}
}

// loads finds what a page could load or run.
var loads = regexp.MustCompile(`(?i)<script|<iframe|<object|<embed|\son[a-z]+=|src=|url\(|@import|https?://[^<"]*"`)

func TestThePageStandsByItself(t *testing.T) {
	s := stage.New(t, 1)
	l := zoo.Honest(t, s.Indexer, now, zoo.Lie{Script: func(s *zoo.Script) {
		s.Batch(zoo.Grant{Series: "b", Name: "b1", Life: 1000 * time.Hour}, 1, zoo.Part{Decision: translog.Include, Pages: 1})
	}})
	for _, grant := range []string{"a1", "a3", "b1", "c1", "of nobody"} {
		r := of(t, s, l, grant, nil)
		var b bytes.Buffer
		if err := r.WriteHTML(&b); err != nil {
			t.Fatal(err)
		}
		page := b.String()
		if found := loads.FindString(page); found != "" {
			t.Errorf("%s: the page has %q", grant, found)
		}
		wants := []string{"<html lang=", "<h1>", r.State.Words(), string(r.Grant.String()), "It does not show"}
		if len(r.Events) > 0 {
			wants = append(wants, `role="img"`, "The same as a table", "<svg", "<table>")
		}
		for _, v := range r.Violations {
			wants = append(wants, "rule "+string(v.Rule))
		}
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s: %q is not on the page", grant, want)
			}
		}
		if strings.Count(page, "<svg") != strings.Count(page, "aria-label=\"")-labels(page) {
			t.Errorf("%s: a figure without words", grant)
		}
	}
}

// labels counts those that are no figure's.
func labels(page string) int {
	return strings.Count(page, `aria-label="`) - strings.Count(page, `role="img" aria-label="`)
}

func TestTheJSONHasEveryMember(t *testing.T) {
	s := stage.New(t, 1)
	r := of(t, s, zoo.Honest(t, s.Indexer, now, zoo.Lie{}), "b1", nil)
	raw, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again status.Report
	if err := json.Unmarshal(raw, &again, json.RejectUnknownMembers(true)); err != nil || !reflect.DeepEqual(*r, again) {
		t.Errorf("%v: written as %s", err, raw)
	}
}
