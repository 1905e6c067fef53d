package fetch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content/fetch"
)

// fakeClock is a clock that only sleeping moves.
type fakeClock struct {
	clockMu sync.Mutex
	now     time.Time
	slept   []time.Duration
}

func (c *fakeClock) Now() time.Time {
	c.clockMu.Lock()
	defer c.clockMu.Unlock()
	return c.now
}

func (c *fakeClock) Sleep(ctx context.Context, d time.Duration) error {
	c.clockMu.Lock()
	defer c.clockMu.Unlock()
	c.now = c.now.Add(d)
	c.slept = append(c.slept, d)
	return ctx.Err()
}

// newClient makes a client that may talk to the servers given, on a fake clock.
func newClient(t *testing.T, change func(*fetch.Config), servers ...*httptest.Server) (*fetch.Client, *fakeClock) {
	t.Helper()
	clock := &fakeClock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	c := fetch.Config{UserAgent: "test/1", Rate: 1e6, Retries: -1, Now: clock.Now, Sleep: clock.Sleep}
	for _, s := range servers {
		c.Allowed = append(c.Allowed, s.URL)
	}
	if change != nil {
		change(&c)
	}
	client, err := fetch.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, clock
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func text(t *testing.T, r *fetch.Response) string {
	t.Helper()
	defer r.Body.Close()
	b, err := r.Body.ReadAll(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestConditionsAreThoseOfTheBodyThatIsHeld(t *testing.T) {
	var got http.Header
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		w.Header().Set("ETag", `W/"b"`)
		if r.Header.Get("If-None-Match") == `W/"b"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		io.WriteString(w, "body")
	})
	c, _ := newClient(t, nil, s)
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name       string
		cond       fetch.Conditions
		etag, date string
		held       bool
	}{
		{"nothing is held", fetch.Conditions{}, "", "", false},
		{"a weak tag is sent as it came", fetch.Conditions{ETag: `W/"b"`}, `W/"b"`, "", true},
		{"a tag makes the date needless", fetch.Conditions{ETag: `"a"`, LastModified: day}, `"a"`, "", false},
		{"a date alone is sent", fetch.Conditions{LastModified: day}, "", "Thu, 01 Jan 2026 00:00:00 GMT", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := c.Get(t.Context(), s.URL+"/x", tt.cond)
			if err != nil {
				t.Fatal(err)
			}
			want := "body"
			if tt.held {
				want = ""
			}
			if body := text(t, r); r.NotModified != tt.held || r.ETag != `W/"b"` || body != want {
				t.Errorf("NotModified %v, ETag %s, body %q", r.NotModified, r.ETag, body)
			}
			if got.Get("If-None-Match") != tt.etag || got.Get("If-Modified-Since") != tt.date || got.Get("User-Agent") != "test/1" {
				t.Errorf("sent %v", got)
			}
		})
	}
}

func TestUncalledFor304IsAnError(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotModified) })
	c, _ := newClient(t, nil, s)
	if r, err := c.Get(t.Context(), s.URL, fetch.Conditions{}); err == nil {
		t.Errorf("Get = %+v, want an error", r)
	}
}

func TestRedirectsAreFollowedWithinBounds(t *testing.T) {
	var conditions []string
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conditions = append(conditions, r.Header.Get("If-None-Match"))
		io.WriteString(w, "other")
	})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conditions = append(conditions, r.Header.Get("If-None-Match"))
		switch r.URL.Path {
		case "/moved":
			w.Header().Set("Location", "here")
			w.WriteHeader(http.StatusPermanentRedirect)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/out":
			http.Redirect(w, r, other.URL+"/", http.StatusFound)
		case "/nowhere":
			w.WriteHeader(http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "/user":
			http.Redirect(w, r, "http://user:secret@example.com/", http.StatusFound)
		default:
			io.WriteString(w, "here")
		}
	})
	c, _ := newClient(t, nil, s, other)
	r, err := c.Get(t.Context(), s.URL+"/moved", fetch.Conditions{ETag: `"a"`})
	if err != nil {
		t.Fatal(err)
	}
	want := []fetch.Redirect{{Code: 308, To: s.URL + "/here"}}
	if got := text(t, r); got != "here" || r.URL != s.URL+"/here" || !slices.Equal(r.Redirects, want) {
		t.Errorf("%q from %s over %v", got, r.URL, r.Redirects)
	}
	if r, err = c.Get(t.Context(), s.URL+"/out", fetch.Conditions{ETag: `"a"`}); err != nil || text(t, r) != "other" {
		t.Errorf("to another origin: %v", err)
	}
	if want := []string{`"a"`, `"a"`, `"a"`, ""}; !slices.Equal(conditions, want) {
		t.Errorf("If-None-Match was %q, want %q: the other origin has nothing that we hold", conditions, want)
	}
	for _, path := range []string{"/loop", "/nowhere", "/file", "/user"} {
		_, err := c.Get(t.Context(), s.URL+path, fetch.Conditions{})
		if !errors.Is(err, fetch.ErrRedirect) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want ErrRedirect", path, err)
		}
	}
}

func TestHTTPSIsNeverLeftForHTTP(t *testing.T) {
	plain := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in the clear") })
	s := httptest.NewTLSServer(http.RedirectHandler(plain.URL, http.StatusFound))
	t.Cleanup(s.Close)
	c, _ := newClient(t, func(c *fetch.Config) {
		c.RootCAs = s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	}, s, plain)
	if _, err := c.Get(t.Context(), s.URL, fetch.Conditions{}); !errors.Is(err, fetch.ErrRedirect) {
		t.Errorf("Get = %v, want ErrRedirect", err)
	}
}

func TestCertificatesAreChecked(t *testing.T) {
	reached := false
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	s.Config.ErrorLog = discard()
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := s.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
	untrusted, _ := newClient(t, nil, s)
	if _, err := untrusted.Get(t.Context(), s.URL, fetch.Conditions{}); err == nil || reached {
		t.Error("a certificate that no authority of the platform signed was accepted")
	}
	// The certificate is for 127.0.0.1 and example.com.
	wrongHost := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	c, _ := newClient(t, func(c *fetch.Config) { c.RootCAs, c.Allowed = roots, append(c.Allowed, wrongHost) }, s)
	if _, err := c.Get(t.Context(), wrongHost, fetch.Conditions{}); err == nil || reached {
		t.Error("a certificate for another host was accepted")
	}
	r, err := c.Get(t.Context(), s.URL, fetch.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
}

func TestCredentialsStayWithTheirOrigin(t *testing.T) {
	const secret = "c2VjcmV0-token"
	var atOther, atHome []string
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		atOther = append(atOther, fmt.Sprint(r.Header))
	})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		atHome = append(atHome, r.Header.Get("Authorization"))
		switch r.URL.Path {
		case "/out":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/denied":
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	var config fetch.Config
	c, _ := newClient(t, func(c *fetch.Config) {
		c.Credentials = map[string]fetch.Credential{s.URL: fetch.Bearer(secret)}
		config = *c
	}, s, other)
	r, err := c.Get(t.Context(), s.URL+"/out", fetch.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	if !slices.Equal(atHome, []string{"Bearer " + secret}) || len(atOther) != 1 || strings.Contains(atOther[0], secret) {
		t.Errorf("at home %q, at the other origin %q", atHome, atOther)
	}
	_, err = c.Get(t.Context(), s.URL+"/denied", fetch.Conditions{})
	var status *fetch.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusUnauthorized || len(atHome) != 2 {
		t.Errorf("denied: %v after %d requests, want one 401", err, len(atHome)-1)
	}
	for _, printed := range []string{
		err.Error(), fmt.Sprintf("%v %+v %#v %s %q", config, config, config.Credentials, config.Credentials[s.URL], config.Credentials),
	} {
		if strings.Contains(printed, secret) {
			t.Errorf("printed: %s", printed)
		}
	}
}

func TestConfigRefusesWhatMakesNoSense(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*fetch.Config)
	}{
		{"no user agent", func(c *fetch.Config) { c.UserAgent = "" }},
		{"a user agent of two lines", func(c *fetch.Config) { c.UserAgent = "a\nb" }},
		{"an allowed URL that is no origin", func(c *fetch.Config) { c.Allowed = []string{"http://127.0.0.1/"} }},
		{"an allowed origin in capitals", func(c *fetch.Config) { c.Allowed = []string{"http://LOCALHOST"} }},
		{"an allowed origin with its scheme's port", func(c *fetch.Config) { c.Allowed = []string{"http://localhost:80"} }},
		{"credentials in the clear", func(c *fetch.Config) {
			c.Credentials = map[string]fetch.Credential{"http://example.com": fetch.Bearer("x")}
		}},
		{"credentials of two lines", func(c *fetch.Config) {
			c.Credentials = map[string]fetch.Credential{"https://example.com": fetch.Bearer("x\r\nHost: y")}
		}},
		{"a negative bound", func(c *fetch.Config) { c.MaxBody = -1 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := fetch.Config{UserAgent: "test/1"}
			tt.change(&c)
			if _, err := fetch.New(c); err == nil {
				t.Error("New accepts it")
			}
		})
	}
	for _, good := range []string{"Bearer abc", "Basic user:pass word\n"} {
		if _, err := fetch.ParseCredential(good); err != nil {
			t.Errorf("ParseCredential(%q): %v", good, err)
		}
	}
	for _, bad := range []string{"", "abc", "Bearer", "Bearer a b", "Basic user", "Digest x", "Bearer a\x00b"} {
		if _, err := fetch.ParseCredential(bad); err == nil || strings.Contains(err.Error(), "abc") {
			t.Errorf("ParseCredential(%q): %v, want an error that does not repeat it", bad, err)
		}
	}
}

func TestURLsAreNotTrusted(t *testing.T) {
	c, _ := newClient(t, nil)
	for _, u := range []string{
		"file:///etc/passwd", "javascript:alert(1)", "gopher://example.com/", "/relative", "http:///x", "",
		"http://user:secret@example.com/", "http://user:secret@exa mple.com/", "http://example.com/" + strings.Repeat("a", 9000),
	} {
		if _, err := c.Get(t.Context(), u, fetch.Conditions{}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("Get(%.40q) = %v, want an error without the password", u, err)
		}
	}
}

func TestBodiesAreBoundedAndStreamed(t *testing.T) {
	endless := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		for block := bytes.Repeat([]byte("x"), 1<<16); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	c, _ := newClient(t, func(c *fetch.Config) { c.MaxBody = 1 << 20 }, endless)
	r, err := c.Get(t.Context(), endless.URL, fetch.Conditions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	n, err := io.Copy(io.Discard, r.Body)
	if !errors.Is(err, fetch.ErrTooLarge) || n > 1<<20 {
		t.Errorf("read %d octets, %v; want ErrTooLarge at 1 MiB", n, err)
	}
	if _, again := r.Body.Read(make([]byte, 1)); !errors.Is(again, fetch.ErrTooLarge) {
		t.Errorf("the next read: %v", again)
	}
}
