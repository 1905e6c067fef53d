package translog

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
	"github.com/uzpif-oi/uzpif-oi/internal/sheet"
)

// text is what of a page a person reads, spaces folded.
func text(t *testing.T, page []byte) string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(string(page)))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode && n.Parent.DataAtom != atom.Style {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestThePageOfTheLogTellsHowItStands(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	code, page := get(t, r.HandlerWithPages(Site{URL: "https://log.example/"}), "/")
	got := text(t, page)
	root, err := r.Published().RootAt(600)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		string(testIndexer), testOrigin, testVkey(t), "600 entries in the log", envelope.Hash(root).String(),
		"15 January 2027, 08:00:00 UTC", "+ 600 in the 24 hours", "Entry 599 Pages taken in", "Entry 580 ",
		"auditor fsck https://log.example --key card.json", "curl --data-binary @revocation.json https://log.example/revocation",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	for _, not := range []string{"Entry 579", "Entry 600", "620", "LOG_URL", "ZgotmplZ"} {
		if strings.Contains(got, not) || code != http.StatusOK {
			t.Errorf("%q is in the page", not)
		}
	}
}

func TestThePageOfTheLogFollowsWhatIsPublished(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	h := r.HandlerWithPages(Site{})
	for _, tt := range []struct {
		name  string
		grow  func()
		wants []string
	}{
		{"an empty log", func() {}, []string{"0 entries in the log", "There are none yet.", "nothing to compare with yet", "LOG_URL/card.json"}},
		{"one entry", func() { r.grow(t, 1, false) }, []string{"1 entry in the log, the first of 15 January 2027", "+ 1 in the 24 hours", "+ 1 in the 7 days"}},
		{"a day later", func() { r.clock.Add(86400); r.grow(t, 3, false) }, []string{"4 entries in the log", "+ 4 in the 24 hours", "16 January 2027"}},
		{"a second more", func() { r.clock.Add(1); r.grow(t, 2, false) }, []string{"6 entries in the log", "+ 5 in the 24 hours", "+ 6 in the 7 days"}},
		{"eight days later", func() { r.clock.Add(8 * 86400); r.grow(t, 1234, false) }, []string{"1,240 entries in the log", "+ 1,234 in the 24 hours", "+ 1,234 in the 7 days"}},
	} {
		tt.grow()
		r.publishNow(t)
		for range 2 { // made, and kept
			_, page := get(t, h, "/")
			for _, want := range tt.wants {
				if got := text(t, page); !strings.Contains(got, want) {
					t.Errorf("%s: %q is not in the page: %.700s", tt.name, want, got)
				}
			}
		}
	}
}

func TestThePageOfAnEntrySaysWhatItIs(t *testing.T) {
	r := open(t, durabletest.New(), nil)
	defer r.close(t)
	all := map[Status]Decision{
		Accepted: Include, Removed: DeleteAck, Refused: Exclude, Reconciled: Update, Rebound: Update, GrantExpired: Exclude,
		OutOfScope: Exclude, Retention: DeleteAck, Stopped: RevokeAck, Revoked: DeleteAck,
	}
	heads := make(map[uint64]string)
	for status, decision := range all {
		r.commit(t, &proposal{prepare: func(tx *Tx) error {
			e := testEntry(tx.NextIndex())
			e.Decision, e.Status, e.Objects = decision, status, Set{Count: 12345}
			if batch, _ := status.Allowed(decision); !batch {
				e.BatchID, e.From = envelope.Hash{}, e.Through
			}
			if status == Stopped || status == Revoked {
				e.RevocationID = testHash("r")
			}
			heads[tx.NextIndex()] = status.words(decision).Headline
			return tx.Append(testSubject, e, nil)
		}})
	}
	r.publishNow(t)
	h := r.HandlerWithPages(Site{})
	_, list := get(t, h, "/")
	seen := make(map[string]bool)
	for index, head := range heads {
		if seen[head] || strings.Contains(head, ",  ") {
			t.Errorf("%q stands for two statuses", head)
		}
		seen[head] = true
		_, page := get(t, h, fmt.Sprintf("/entry/%d", index))
		_, raw := get(t, h, fmt.Sprintf("/entry/%d.json", index))
		got := text(t, page)
		for _, want := range []string{
			head, "12,345 pages", testHash("g").String(), "16 January 2027", string(testSubject), "a pseudonym",
			envelope.Hash(LeafHash(raw)).String(), "inclusion in the log of 10 entries",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("entry %d: %q is not in its page: %s", index, want, got)
			}
		}
		if !strings.Contains(text(t, list), head+" 12,345 pages") {
			t.Errorf("%q is not in the list", head)
		}
	}
	if w := Status("new").words("strange"); !strings.Contains(w.Headline, "strange") || !strings.Contains(w.Headline, "new") {
		t.Errorf("an unknown status: %+v", w)
	}
}

func TestEveryLinkOfAPageLeadsSomewhere(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	mux := http.NewServeMux()
	mux.Handle("/a/log/", http.StripPrefix("/a/log", r.HandlerWithPages(Site{})))
	beside := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "beside the log") }
	mux.HandleFunc("/a/log/card.json", beside)
	mux.HandleFunc("/a/log/grant/{file}", beside)
	queue, seen := []string{"/a/log/"}, map[string]bool{"/a/log/": true}
	for len(queue) > 0 && len(seen) < 60 {
		at := queue[0]
		queue = queue[1:]
		resp := ask(mux, "GET", at)
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", at, resp.Status)
		}
		if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
			continue
		}
		base, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		root, err := html.Parse(strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		ids, fragments := map[string]bool{}, []string{}
		for n := range root.Descendants() {
			for _, a := range n.Attr {
				if a.Key == "id" {
					ids[a.Val] = true
				}
				if a.Key != "href" || n.DataAtom != atom.A {
					continue
				}
				u, err := base.Parse(a.Val)
				switch {
				case err != nil:
					t.Errorf("%s: %v", at, err)
				case strings.HasPrefix(a.Val, "#"):
					fragments = append(fragments, a.Val[1:])
				case u.Host == "c2sp.org":
				case !seen[u.RequestURI()]:
					seen[u.RequestURI()] = true
					queue = append(queue, u.RequestURI())
				}
			}
		}
		for _, f := range fragments {
			if !ids[f] {
				t.Errorf("%s: nothing is called #%s", at, f)
			}
		}
	}
}

func TestPagesLoadNothingAndRunNothing(t *testing.T) {
	r := published600(t)
	defer r.close(t)
	h := r.HandlerWithPages(Site{URL: `https://log.example/"><script>alert(1)</script>`})
	for _, path := range []string{"/", "/entry/7"} {
		resp := ask(h, "GET", path)
		body, _ := io.ReadAll(resp.Body)
		policy := resp.Header.Get("Content-Security-Policy")
		if strings.Contains(policy, "unsafe") || !strings.HasPrefix(policy, "default-src 'none'; ") {
			t.Errorf("%s: policy %s", path, policy)
		}
		root, err := html.Parse(strings.NewReader(string(body)))
		if err != nil {
			t.Fatal(err)
		}
		count := make(map[atom.Atom]int)
		for n := range root.Descendants() {
			count[n.DataAtom]++
			if n.DataAtom == atom.Style && !strings.Contains(policy, "'"+sheet.Hash(n.FirstChild.Data)+"'") {
				t.Errorf("%s: the policy does not let the page's own style through", path)
			}
			for _, a := range n.Attr {
				if a.Key == "style" || strings.HasPrefix(a.Key, "on") || a.Key == "src" {
					t.Errorf("%s: <%s %s=%q>", path, n.Data, a.Key, a.Val)
				}
			}
		}
		for _, a := range []atom.Atom{atom.Script, atom.Img, atom.Iframe, atom.Form} {
			if count[a] != 0 {
				t.Errorf("%s: a <%s>", path, a)
			}
		}
		for _, a := range []atom.Atom{atom.Header, atom.Nav, atom.Main, atom.Footer, atom.H1, atom.Title, atom.Style} {
			if count[a] != 1 {
				t.Errorf("%s: %d of <%s>, want one", path, count[a], a)
			}
		}
	}
}

func TestNumbersAndTimesAreWrittenForPeople(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", 9007199254740991: "9,007,199,254,740,991"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	at := pageTime{time.Date(2026, 11, 3, 1, 2, 3, 0, time.FixedZone("", 3600))}
	if at.Human() != "3 November 2026, 00:02:03 UTC" || at.Machine() != "2026-11-03T00:02:03Z" {
		t.Errorf("%s, %s", at.Human(), at.Machine())
	}
}
