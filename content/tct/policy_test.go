package tct_test

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"
	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"pgregory.net/rapid"
)

func TestAPolicyIsReadAndUnknownIsNotAllowed(t *testing.T) {
	for _, tt := range []struct {
		name, text          string
		train, input, index content.Answer
		odd                 int
	}{
		{"all said", `{"profile":"tct-policy-1","version":1,"purposes":{"allow_ai_train":false,"allow_ai_input":true,"allow_search_indexing":true}}`, content.No, content.Yes, content.Yes, 0},
		{"nothing said", `{"profile":"tct-policy-1","version":1}`, content.Unknown, content.Unknown, content.Unknown, 0},
		{"null says nothing", `{"profile":"tct-policy-1","version":1,"purposes":{"allow_ai_train":null}}`, content.Unknown, content.Unknown, content.Unknown, 0},
		{"what cannot be understood is no permission", `{"profile":"tct-policy-1","version":1,"purposes":{"allow_ai_train":"yes","allow_ai_input":1,"allow_search_indexing":{}}}`, content.No, content.No, content.No, 3},
		{"nor are purposes that are no object", `{"profile":"tct-policy-1","version":1,"purposes":[true]}`, content.No, content.No, content.No, 1},
		{"another case is another name", `{"profile":"tct-policy-1","version":1,"purposes":{"Allow_AI_Train":true}}`, content.Unknown, content.Unknown, content.Unknown, 0},
		{"an unknown profile is noted", `{"profile":"tct-policy-9","version":1}`, content.Unknown, content.Unknown, content.Unknown, 1},
		{"a version in words is noted", `{"profile":"tct-policy-1","version":"1"}`, content.Unknown, content.Unknown, content.Unknown, 1},
		{"members that nobody knows", ` {"profile":"tct-policy-1","version":1,"x":{"y":[]},"purposes":{"z":0}} ` + "\n", content.Unknown, content.Unknown, content.Unknown, 0},
		{"types that are wrong", `{"profile":1,"version":1,"policy_urls":[],"requirements":7,"effective":"soon","rate_hints":{"note":0,"max_requests_per_day":-1,"max_requests_per_second":"1"}}`, content.Unknown, content.Unknown, content.Unknown, 8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, odd, err := tct.ReadPolicy(strings.NewReader(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if p.AllowAITrain != tt.train || p.AllowAIInput != tt.input || p.AllowSearchIndexing != tt.index || len(odd) != tt.odd {
				t.Errorf("train %v, input %v, index %v, odd %q", p.AllowAITrain, p.AllowAIInput, p.AllowSearchIndexing, odd)
			}
			if p.Preferences("x").Allows(content.PurposeAITrain) != (tt.train == content.Yes) {
				t.Error("the preferences say something else")
			}
		})
	}
	for _, text := range []string{"", "null", "[]", `{"a":1`, `{"a":1,"a":2}`, `{"purposes":{"a":}}`, "{}x", strings.Repeat("[", 1_000_000), `{"note":"` + strings.Repeat("a", tct.MaxPolicy) + `"}`} {
		if p, _, err := tct.ReadPolicy(strings.NewReader(text)); !errors.Is(err, tct.ErrPolicy) || p != (tct.Policy{}) {
			t.Errorf("ReadPolicy(%.30q) = %+v, %v; want ErrPolicy", text, p, err)
		}
	}
}

func TestPoliciesSurviveARoundTrip(t *testing.T) {
	answer := rapid.SampledFrom([]content.Answer{content.Unknown, content.Yes, content.No})
	at := rapid.Custom(func(t *rapid.T) time.Time { return time.Unix(rapid.Int64Range(1, 4e9).Draw(t, "at"), 0).UTC() })
	rapid.Check(t, func(t *rapid.T) {
		want := tct.Policy{
			Profile: tct.PolicyProfile, Version: rapid.Int64Range(0, 1<<53).Draw(t, "version"),
			Effective: at.Draw(t, "effective"), Updated: at.Draw(t, "updated"),
			TermsOfService: rapid.String().Draw(t, "terms"), PaymentInfo: rapid.String().Draw(t, "payment"), Contact: rapid.String().Draw(t, "contact"),
			AllowAIInput: answer.Draw(t, "input"), AllowAITrain: answer.Draw(t, "train"), AllowSearchIndexing: answer.Draw(t, "index"),
			AttributionRequired: answer.Draw(t, "attribution"), LinkBackRequired: answer.Draw(t, "link"), NoticeRequired: answer.Draw(t, "notice"),
			MaxRequestsPerSecond: rapid.Float64Range(0, 1e6).Draw(t, "per second"), MaxRequestsPerDay: rapid.Float64Range(0, 1e9).Draw(t, "per day"),
			Note: rapid.String().Draw(t, "note"),
		}
		raw, err := want.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if oracle, err := jcs.Transform(raw); err != nil || !bytes.Equal(oracle, raw) {
			t.Fatalf("%s is not in canonical form: %s, %v", raw, oracle, err)
		}
		got, odd, err := tct.ReadPolicy(bytes.NewReader(raw))
		if err != nil || len(odd) > 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v, %q, %v; want %+v", got, odd, err, want)
		}
	})
}

func FuzzReadPolicy(f *testing.F) {
	f.Add(example(f, "policy.json"))
	f.Add([]byte(`{"purposes":{"allow_ai_train":"x"},"rate_hints":{"max_requests_per_second":1e400}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, _, err := tct.ReadPolicy(bytes.NewReader(b))
		if err != nil {
			return
		}
		raw, err := p.Marshal()
		if err != nil {
			t.Fatalf("%+v: %v", p, err)
		}
		again, _, err := tct.ReadPolicy(bytes.NewReader(raw))
		p.Profile = tct.PolicyProfile
		if err != nil || again.AllowAITrain != p.AllowAITrain || again.Version != p.Version || again.MaxRequestsPerDay != p.MaxRequestsPerDay {
			t.Fatalf("read %+v, wrote and read %+v, %v", p, again, err)
		}
	})
}
