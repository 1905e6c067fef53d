package monitor

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/uzpif-oi/uzpif-oi/internal/sheet"
)

// admin is one with a report and a page of everything.
func admin(report *Report) *Admin {
	h := new(History)
	for i := range 30 {
		h.Add(time.Unix(int64(1000+5*i), 0), float64(i*i), float64(i%7))
	}
	page := func() Page {
		return Page{
			Program: "indexerd", Identity: "spiffe://a.test/x", Made: time.Unix(2000, 0), Report: *report,
			Cards:  []Card{{"12", "pages"}},
			Charts: []Chart{h.Rate("Growth", "entries", 0), h.Level("Queue", "proposals", 1), new(History).Level("Nothing", "x", 0)},
			Sections: []Section{
				{ID: "agreements", Title: "Agreements", Agreements: []Agreement{{
					Title: "</style><script>alert(1)</script>", With: "spiffe://p.test/p", State: "live", Good: true,
					Words: []string{"It may index."}, Facts: []Fact{{Name: "Pages", Value: "3"}},
				}}},
				{ID: "recent", Title: "Recent", Tables: []Table{{Caption: "Receipts", Heads: []string{"When", "Who"}, Rows: [][]string{{"1 s ago", "spiffe://p.test/p"}}}}},
				{ID: "witnesses", Title: "Witnesses", Empty: "There are none."},
			},
		}
	}
	return &Admin{Address: "admin.test:7482", Service: "a.Service", Report: func() Report { return *report }, Page: page, Log: slog.New(slog.DiscardHandler)}
}

// ask asks a handler as a client under the name host would.
func ask(h http.Handler, method, target, host string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	r.Host = host
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const here = "127.0.0.1:7482"

func TestReadyzSaysWhy(t *testing.T) {
	report := new(Report)
	h := admin(report).Handler()
	for _, tt := range []struct {
		name   string
		add    func()
		code   int
		text   string
		asJSON string
	}{
		{"all is well", func() {}, http.StatusOK, "ok\n", `{"ready":true,"state":"ok","reasons":[]}` + "\n"},
		{"a warning leaves it ready", func() { report.Warn("a_thing", "look\nat %d", 1) }, http.StatusOK, "warning\nwarning a_thing: look at 1\n",
			`{"ready":true,"state":"warning","reasons":[{"code":"a_thing","level":"warning","detail":"look\nat 1"}]}` + "\n"},
		{"a failure does not", func() { report.Fail("b_thing", "gone") }, http.StatusServiceUnavailable, "not ready\nwarning a_thing: look at 1\nfailing b_thing: gone\n",
			`{"ready":false,"state":"not ready","reasons":[{"code":"a_thing","level":"warning","detail":"look\nat 1"},{"code":"b_thing","level":"failing","detail":"gone"}]}` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.add()
			if w := ask(h, "GET", "/readyz", here); w.Code != tt.code || w.Body.String() != tt.text {
				t.Errorf("%d %q, want %d %q", w.Code, w.Body, tt.code, tt.text)
			}
			for _, w := range []*httptest.ResponseRecorder{ask(h, "GET", "/readyz?format=json", here), ask(h, "GET", "/readyz", here, "Accept", "application/json")} {
				if w.Code != tt.code || w.Body.String() != tt.asJSON || w.Header().Get("Content-Type") != "application/json" {
					t.Errorf("%d %q, want %d %q", w.Code, w.Body, tt.code, tt.asJSON)
				}
			}
			if w := ask(h, "GET", "/healthz", here); w.Code != http.StatusOK || w.Body.String() != "ok\n" {
				t.Errorf("healthz: %d %q", w.Code, w.Body)
			}
		})
	}
}

func TestAForeignNameIsTurnedAway(t *testing.T) {
	h := admin(new(Report)).Handler()
	for host, want := range map[string]int{
		here: http.StatusOK, "[::1]:7482": http.StatusOK, "192.0.2.7": http.StatusOK, "localhost:7482": http.StatusOK, "LOCALHOST": http.StatusOK,
		"admin.test:7482": http.StatusOK, "Admin.Test.": http.StatusOK,
		"rebound.example:7482": http.StatusMisdirectedRequest, "localhost.example": http.StatusMisdirectedRequest,
		"127.0.0.1.example": http.StatusMisdirectedRequest, "": http.StatusMisdirectedRequest, strings.Repeat("a", 300): http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/", "/healthz", "/readyz", "/metrics"} {
			if w := ask(h, "GET", path, host); w.Code != want {
				t.Errorf("%s of %q: %d, want %d", path, host, w.Code, want)
			}
		}
	}
}

func TestNothingIsChangedByAnyMethod(t *testing.T) {
	h := admin(new(Report)).Handler()
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"} {
		for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/debug/pprof/symbol"} {
			if w := ask(h, method, path, here); w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
}

func TestProfilesAreServedOnlyWhenAskedFor(t *testing.T) {
	a := admin(new(Report))
	if w := ask(a.Handler(), "GET", "/debug/pprof/goroutine?debug=1", here); w.Code != http.StatusNotFound {
		t.Errorf("unasked: %d", w.Code)
	}
	a.Profiles = true
	if w := ask(a.Handler(), "GET", "/debug/pprof/goroutine?debug=1", here); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "goroutine profile") {
		t.Errorf("asked: %d", w.Code)
	}
}

func TestOnlyWhatWaitsCanBeStuck(t *testing.T) {
	var p Progress
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	for i, tt := range []struct {
		now     int64
		waiting bool
		count   uint64
		want    time.Duration
	}{
		{100, false, 5, 0}, {200, false, 5, 0}, // idle for long is not stuck
		{300, true, 5, 0}, {330, true, 5, 30 * time.Second}, {340, true, 6, 0}, {345, true, 6, 5 * time.Second},
		{350, false, 6, 0}, {360, true, 6, 0}, {370, true, 6, 10 * time.Second},
		{200, true, 6, 0}, {210, true, 6, 10 * time.Second}, // the clock was set back
	} {
		if got := p.Stuck(at(tt.now), tt.waiting, tt.count); got != tt.want {
			t.Errorf("step %d: %s, want %s", i, got, tt.want)
		}
	}
}

func TestARiseIsRememberedForAWhile(t *testing.T) {
	var r Rise
	for i, tt := range []struct {
		now   int64
		count uint64
		want  bool
	}{{100, 7, false}, {110, 7, false}, {120, 8, true}, {170, 8, true}, {180, 8, false}, {190, 9, true}} {
		if got := r.Within(time.Unix(tt.now, 0), time.Minute, tt.count); got != tt.want {
			t.Errorf("step %d: %t", i, got)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	h := new(History)
	for i := range 3 * historySamples {
		h.Add(time.Unix(int64(i), 0), float64(i))
	}
	all := h.levels(0)
	if len(all) != historySamples || all[0].v != 2*historySamples || all[len(all)-1].v != 3*historySamples-1 || cap(h.ring) > 2*historySamples {
		t.Errorf("%d samples from %v to %v, room for %d", len(all), all[0].v, all[len(all)-1].v, cap(h.ring))
	}
	c := h.Rate("Growth", "entries", 0)
	if c.Now != "1 a second" || strings.Count(c.Line, "L") > chartPoints || !strings.HasPrefix(c.Line, "M0,") {
		t.Errorf("%+v", c)
	}
	h.Add(time.Unix(3*historySamples, 0), 0) // the counter began anew
	if c := h.Rate("Growth", "entries", 0); c.Now != "0 a second" {
		t.Errorf("behind a restart: %s", c.Now)
	}
}

// TestASizeIsDrawnAsOne: a chart of octets says how many KiB or MiB there are, at its
// edge too, and a chart of anything else how many.
func TestASizeIsDrawnAsOne(t *testing.T) {
	h := new(History)
	for i := range 4 {
		h.Add(time.Unix(int64(10*i), 0), float64(i*30<<20), float64(i*3<<20), float64(i*9000<<10))
	}
	c := h.Rate("Payload", "octets", 0)
	if c.Now != "3.0 MiB a second" || c.Top != "5.0 MiB" || !strings.HasPrefix(c.Words, "Payload: now 3.0 MiB a second; in the last 20 s at most 3.0 MiB") {
		t.Errorf("%+v", c)
	}
	if c := h.Rate("Payload", "octets", 2); c.Now != "900.0 KiB a second" || c.Top != "1.0 MiB" {
		t.Errorf("%+v", c)
	}
	if c := h.Level("Pages", "pages", 1); c.Now != Number(9<<20) || c.Top != Number(10_000_000) || !strings.HasPrefix(c.Words, "Pages: now "+Number(9<<20)+" pages; ") {
		t.Errorf("%+v", c)
	}
}

func TestOptionsAreNotParted(t *testing.T) {
	if got := (Fact{Value: "trust add a.json --origin=https://a.test"}).Arguments(); len(got) != 4 || got[3] != "--origin=https://a.test" {
		t.Errorf("%q", got)
	}
	if got := (Fact{Value: "done - at last"}).Arguments(); got != nil {
		t.Errorf("%q", got)
	}
}

func TestNumbersAreWrittenForPeople(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 1: "1", 1.26: "1.3", 999: "999", 1234567.8: "1\u202f234\u202f568", -1500: "−1\u202f500"} {
		if got := Number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 5 << 30: "5.0 GiB"} {
		if got := Octets(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{-1: "0 s", time.Second: "1 s", 3 * time.Minute: "3 min", 5 * time.Hour: "5 h", 72 * time.Hour: "3 days"} {
		if got := Ago(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// TestThePageIsWholeWithoutItsScript reads the page as it comes: everything stands
// in it, nothing is loaded, and what others wrote is text.
func TestThePageIsWholeWithoutItsScript(t *testing.T) {
	report := new(Report)
	report.Fail("writer_stalled", "nothing moves")
	w := ask(admin(report).Handler(), "GET", "/", here)
	body, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
	for _, want := range []string{
		"Not ready.", "writer_stalled", "nothing moves", "spiffe://a.test/x", "It may index.", "1 s ago", "There are none.", "Nothing to show yet",
		"&lt;/style&gt;&lt;script&gt;alert(1)", `role="img" aria-label="Growth: now `, `<th scope="row">1 s ago</th><td data-name="Who">`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	root, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	ids, heads, scripts := map[string]bool{}, 0, 0
	for n := range root.Descendants() {
		switch n.Data {
		case "h1":
			heads++
		case "script":
			scripts++
		}
		if (n.Data == "script" || n.Data == "style") && !strings.Contains(policy, "'"+sheet.Hash(n.FirstChild.Data)+"'") {
			t.Errorf("the policy does not name this <%s>", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case a.Key == "id" && ids[a.Val]:
				t.Errorf("two elements are called %q", a.Val)
			case a.Key == "id":
				ids[a.Val] = true
			case a.Key == "src", a.Key == "style", strings.HasPrefix(a.Key, "on"):
				t.Errorf("<%s %s=%q>", n.Data, a.Key, a.Val)
			case a.Key == "href" && regexp.MustCompile(`^(https?:|//)`).MatchString(a.Val):
				t.Errorf("a link to elsewhere: %s", a.Val)
			}
		}
	}
	if heads != 1 || scripts != 1 || !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("%d <h1>, %d <script>, policy %q", heads, scripts, policy)
	}
	for id := range ids {
		if strings.HasSuffix(id, "-live") && !ids[strings.TrimSuffix(id, "-live")] {
			t.Errorf("%s has no heading", id)
		}
	}
}

// TestGRPCHealthFollowsTheReport asks over HTTP/2 without TLS, as probes do.
func TestGRPCHealthFollowsTheReport(t *testing.T) {
	report := new(Report)
	h := admin(report).Handler()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	h.Configure(server)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() { server.Close(); <-served }()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	check := func(service string, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		got, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || got.Status != want {
			t.Errorf("%q: %v, %v", service, got, err)
		}
	}
	check("", grpc_health_v1.HealthCheckResponse_SERVING)
	check("a.Service", grpc_health_v1.HealthCheckResponse_SERVING)
	if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "another"}); status.Code(err) != codes.NotFound {
		t.Errorf("another service: %v", err)
	}
	report.Fail("x", "y")
	check("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := watch.Recv(); err != nil || got.Status != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("watch: %v, %v", got, err)
	}
	resp, err := http.Get(fmt.Sprintf("http://%s/healthz", l.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "ok\n" {
		t.Errorf("HTTP/1.1 beside it: %q, %v", b, err)
	}
}
