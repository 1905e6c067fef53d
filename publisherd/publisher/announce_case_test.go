package publisher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// told is what an announcement tells, member by member, with the most octets
// that each value may have here. An artefact inside it has its own members.
type told map[string]int

// message adds the fields that are set in m.
func (t told) message(at string, m protoreflect.Message) {
	m.Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		path := at + string(field.Name())
		each := func(v protoreflect.Value) {
			switch field.Kind() {
			case protoreflect.MessageKind:
				t.message(path+".", v.Message())
			case protoreflect.BytesKind:
				if raw := v.Bytes(); bytes.HasPrefix(raw, []byte("{")) {
					t.artefact(path+": ", raw)
				} else {
					t[path] = max(t[path], len(raw))
				}
			default:
				t[path] = max(t[path], len(v.String()))
			}
		}
		if !field.IsList() {
			each(v)
			return true
		}
		for i := range v.List().Len() {
			each(v.List().Get(i))
		}
		return true
	})
}

// artefact adds the members of a signed artefact.
func (t told) artefact(at string, raw []byte) {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t[at+"octets"] = len(raw)
		return
	}
	t.value(at, v)
}

func (t told) value(at string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, inner := range v {
			t.value(at+name+".", inner)
		}
		if len(v) == 0 {
			t[at] = 0
		}
	case []any:
		for _, inner := range v {
			t.value(at, inner)
		}
	default:
		t[at] = max(t[at], len(fmt.Sprint(v)))
	}
}

// signedMembers are those that every artefact of a publisher has.
func signedMembers(at string, expires bool) told {
	all := told{
		"audience.": 255, "envelope_version.": 14, "epoch.": 16, "issued_at.": 20, "issuer_authority.": 255, "object_id.": 71,
		"object_type.": 26, "sequence.": 16, "signatures.alg.": 7, "signatures.key_id.": 71, "signatures.sig.": 86, "subject.": 255,
	}
	if expires {
		all["expires_at."] = 20
	}
	placed := make(told)
	for name, most := range all {
		placed[at+": "+name] = most
	}
	return placed
}

// TestAnAnnouncementTellsNoMoreThanItMust lists what an indexer is told before
// it has admitted anything, and about how much (UZPIF-OI 14, 15). A member that
// is added to an announcement has to be added here, by somebody who has thought
// about what it gives away. No page, no count of pages, no root and no revision
// is among them, and what the indexer holds already is named by its id alone.
func TestAnAnnouncementTellsNoMoreThanItMust(t *testing.T) {
	x := newFixture(t)
	x.write("a", "secret words")
	s := &session{p: x.p, peer: x.peer(), rels: []*Relationship{x.rel}, welcome: &oiv1.Welcome{Nonce: bytes.Repeat([]byte{2}, 32)}}
	always := told{
		"announcement: body.exporter.": 64, "announcement: body.nonce.": 64, "announcement: body.publisher.": 255,
		"announcement: body.grants.": 71, "announcement: body.policies.": 71,
		"announcement: body.requests.actions.": 10, "announcement: body.requests.purposes.": 64, "announcement: body.requests.series.": 96,
		"announcement: body.requests.scope.type.": 10, "announcement: body.requests.scope.prefixes.": 2048,
	}
	maps.Copy(always, signedMembers("announcement", true))
	once := told{
		"secrets.series": 96, "secrets.leaf_key": 32, "secrets.relationship": 32, "secrets.collection": 64,
		"grants: body.constraints.": 0, "grants: body.issuer.": 255, "grants: body.leaf_key_commit.": 71, "grants: body.listing.": 7,
		"grants: body.mode.": 7, "grants: body.nonce.": 22, "grants: body.policy_hash.": 71, "grants: body.purposes.": 64,
		"grants: body.scope.type.": 10, "grants: body.scope.prefixes.": 2048, "grants: body.series.": 96,
		"policies: body.allowed.": 64, "policies: body.attribution.link_back.": 5, "policies: body.attribution.required.": 5,
		"policies: body.denied.": 64, "policies: body.derivatives.embeddings.": 7, "policies: body.derivatives.snippets.": 7,
		"policies: body.derivatives.summary.": 7, "policies: body.issuer.": 255, "policies: body.nonce.": 22,
		"policies: body.redistribution.": 7, "policies: body.retention.cached_copy_days.": 5, "policies: body.retention.feature_days.": 5,
		"policies: body.scope.type.": 10, "policies: body.scope.prefixes.": 2048, "policies: body.series.": 96,
	}
	maps.Copy(once, signedMembers("grants", true))
	maps.Copy(once, signedMembers("policies", false))
	maps.Copy(once, always)
	g, p := x.s.Pair.Grant.Object, x.s.Pair.Policy.Object
	seen := &oiv1.SeriesSeen{
		Series: x.rel.Series,
		Grant:  &oiv1.Position{Epoch: g.Epoch, Sequence: g.Sequence, ObjectId: g.ID[:]},
		Policy: &oiv1.Position{Epoch: p.Epoch, Sequence: p.Sequence, ObjectId: p.ID[:]},
	}
	for _, tt := range []struct {
		name string
		seen []*oiv1.SeriesSeen
		want told
	}{
		{"to an indexer that knows nothing of the series yet", nil, once},
		{"to one that holds its grant and policy", []*oiv1.SeriesSeen{seen}, always},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.welcome.Series = tt.seen
			frame, err := s.announcement([32]byte{1})
			check(t, err)
			got := make(told)
			got.message("", frame.ProtoReflect())
			for _, path := range slices.Sorted(maps.Keys(got)) {
				if most, ok := tt.want[path]; !ok {
					t.Errorf("the announcement tells %q, in %d octets, which is not on the list", path, got[path])
				} else if got[path] > most {
					t.Errorf("%q has %d octets, at most %d are foreseen", path, got[path], most)
				}
			}
			for path := range tt.want {
				if _, ok := got[path]; !ok {
					t.Errorf("%q is on the list and not told", path)
				}
			}
			octets, err := proto.Marshal(frame)
			check(t, err)
			if bytes.Contains(octets, []byte("secret words")) || bytes.Contains(octets, []byte("a.html")) {
				t.Errorf("a page is named: %q", octets)
			}
		})
	}
}

// TestTheFirstFramesHaveTheseFields keeps the list of what a publisher can say
// before it is admitted: a field that is added to one of these messages has to
// be weighed, and entered here and in the test above.
func TestTheFirstFramesHaveTheseFields(t *testing.T) {
	for _, tt := range []struct {
		message proto.Message
		want    []string
	}{
		{(*oiv1.Hello)(nil), []string{"features", "note", "versions"}},
		{(*oiv1.Announce)(nil), []string{"announcement", "feeds", "grants", "packed", "policies", "secrets"}},
		{(*oiv1.SeriesSecret)(nil), []string{"collection", "leaf_key", "relationship", "series"}},
	} {
		descriptor := tt.message.ProtoReflect().Descriptor()
		var got []string
		for i := range descriptor.Fields().Len() {
			got = append(got, string(descriptor.Fields().Get(i).Name()))
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s has the fields %q, want %q", descriptor.Name(), got, tt.want)
		}
	}
}
