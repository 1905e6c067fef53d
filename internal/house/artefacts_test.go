package house

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// TestEachMemberOfABodyIsDescribed compares doc/artefacts.md with the types that are
// signed: the members, their order, and which of them are optional.
func TestEachMemberOfABodyIsDescribed(t *testing.T) {
	raw, err := os.ReadFile("../../doc/artefacts.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := tablesOf(string(raw))
	bodies := []any{
		identity.Card{}, identity.Key{}, grants.PolicyBody{}, grants.GrantBody{}, grants.Scope{}, grants.FeedBody{},
		grants.AnnouncementBody{}, translog.Manifest{}, grants.RevocationBody{}, translog.Entry{}, translog.Checkpoint{},
		translog.Receipt{}, translog.Export{}, translog.Acknowledgement{},
	}
	if len(tables) != len(bodies) {
		t.Fatalf("%d tables for %d bodies", len(tables), len(bodies))
	}
	for i, body := range bodies {
		name := reflect.TypeOf(body).String()
		want := membersOf(reflect.TypeOf(body))
		got := tables[i]
		for n := range max(len(want), len(got)) {
			var w, g member
			if n < len(want) {
				w = want[n]
			}
			if n < len(got) {
				g = got[n]
			}
			if w.name != g.name || w.optional != g.optional {
				t.Errorf("%s: row %d describes %q (optional: %t), the member there is %q (optional: %t)", name, n+1, g.name, g.optional, w.name, w.optional)
			}
			for _, inner := range w.inner {
				if !strings.Contains(g.row, "`"+inner+"`") {
					t.Errorf("%s: the row of %q does not name %q", name, w.name, inner)
				}
			}
		}
	}
}

// A member is one of a body, or the row that describes it.
type member struct {
	name     string
	optional bool
	inner    []string // members of a struct that has no table of its own
	row      string
}

func tablesOf(page string) (tables [][]member) {
	for line := range strings.Lines(page) {
		cells := strings.Split(line, "|")
		switch {
		case strings.HasPrefix(line, "| member |"):
			tables = append(tables, nil)
		case strings.HasPrefix(line, "| `"):
			last := len(tables) - 1
			tables[last] = append(tables[last], member{
				name: strings.Trim(cells[1], " `"), optional: strings.Contains(cells[2], "optional"), row: cells[3],
			})
		}
	}
	return tables
}

func membersOf(t reflect.Type) (all []member) {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "" || tag == "-" {
			continue
		}
		m := member{name: tag, optional: options != ""}
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		switch inner {
		case reflect.TypeFor[identity.Key](), reflect.TypeFor[grants.Scope](), reflect.TypeFor[translog.Set]():
		default:
			if inner.Kind() == reflect.Struct {
				for _, x := range membersOf(inner) {
					m.inner = append(m.inner, x.name)
				}
			}
		}
		all = append(all, m)
	}
	return all
}
