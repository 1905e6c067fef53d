package fsck

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/translog/remote"
)

// A proxy serves a log, and may change one answer. It keeps answers, so that a
// log is asked once.
type proxy struct {
	log http.Handler

	mu     sync.Mutex
	kept   map[string]*httptest.ResponseRecorder
	change string // path whose body is changed, with its query
	with   func(body []byte) []byte
	status int // in place of 200, if it is set
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	path := r.URL.RequestURI()
	if p.kept[path] == nil {
		p.kept[path] = httptest.NewRecorder()
		plain := r.Clone(r.Context())
		plain.Header = http.Header{}
		p.log.ServeHTTP(p.kept[path], plain)
	}
	answer, body := p.kept[path], p.kept[path].Body.Bytes()
	if path == p.change {
		if p.status != 0 {
			w.WriteHeader(p.status)
			return
		}
		body = p.with(bytes.Clone(body))
	}
	w.WriteHeader(answer.Code)
	w.Write(body)
}

// serve gives a client of a proxy in front of a log.
func serve(t testing.TB, log http.Handler) (*proxy, *remote.Client) {
	t.Helper()
	p := &proxy{log: log, kept: make(map[string]*httptest.ResponseRecorder)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	c, err := remote.New(server.URL, testVkey(t), remote.Options{Tries: 1})
	check(t, err)
	t.Cleanup(c.Close)
	return p, c
}

func publicOptions() Options { return Options{Keys: testKeys{}, Indexer: testIndexer, Limit: 1 << 16} }

func TestASoundLogIsSoundFromOutside(t *testing.T) {
	r := newRig(t)
	defer r.close()
	_, c := serve(t, r.log.Handler())
	got, err := Remote(t.Context(), c, publicOptions())
	if err != nil || !got.OK() || got.TreeSize != 0 {
		t.Fatalf("the empty log: %+v, %v", got, err)
	}
	for _, n := range []int{1, 254, 1, 1, 300} {
		r.grow(n)
		r.publish()
		_, c := serve(t, r.log.Handler())
		o := publicOptions()
		o.Signatures = true
		got, err := Remote(t.Context(), c, o)
		if tree := r.log.Published().Tree; err != nil || !got.OK() || got.TreeSize != tree.Size || got.Entries != tree.Size {
			t.Errorf("size %d: %+v, %v", tree.Size, got, err)
		}
	}
}

// TestEveryChangedAnswerIsFound changes octets all over each answer of two logs.
// TestEveryOctetOfEveryAnswerIsChecked, for long runs, changes all of them.
func TestEveryChangedAnswerIsFound(t *testing.T) {
	changeAnswers(t, []int{3, 2}, 16)
	changeAnswers(t, []int{256, 4}, 1)
}

// changeAnswers changes so many octets, spread over each answer of a log that was
// committed and published in steps, and changes it in other ways.
func changeAnswers(t *testing.T, steps []int, octets int) {
	r := newRig(t)
	defer r.close()
	for _, n := range steps {
		r.grow(n)
		r.publish()
	}
	p, c := serve(t, r.log.Handler())
	ask := func(found bool, format string, args ...any) {
		t.Helper()
		got, err := Remote(t.Context(), c, publicOptions())
		if err != nil || got.OK() == found {
			t.Errorf("%s: findings %v, error %v", fmt.Sprintf(format, args...), got.Findings[:min(3, len(got.Findings))], err)
		}
	}
	ask(false, "nothing was changed")
	rng := rand.New(rand.NewPCG(3, 4))
	for path, answer := range p.kept {
		p.change = path
		n := answer.Body.Len()
		for i := range min(octets, n) {
			at := i * n / min(octets, n)
			p.with = func(b []byte) []byte { b[at] ^= 1 << rng.IntN(8); return b }
			ask(true, "octet %d of %s", at, path)
		}
		for what, with := range map[string]func([]byte) []byte{
			"one octet short": func(b []byte) []byte { return b[:n-1] },
			"one octet long":  func(b []byte) []byte { return append(b, b[n-1]) },
			"empty":           func([]byte) []byte { return nil },
		} {
			p.with = with
			ask(true, "%s %s", path, what)
		}
		for _, p.status = range []int{http.StatusNotFound, http.StatusTemporaryRedirect} {
			ask(true, "%s with status %d", path, p.status)
		}
		p.status = http.StatusInternalServerError
		if _, err := Remote(t.Context(), c, publicOptions()); !errors.Is(err, remote.ErrUnavailable) {
			t.Errorf("%s not served: %v", path, err)
		}
		p.status = 0
	}
	if n := len(p.kept); n < 12 {
		t.Errorf("only %d answers", n)
	}
}

// TestALogIsCheckedWhileItGrows checks over both ways while another goroutine
// commits and publishes.
func TestALogIsCheckedWhileItGrows(t *testing.T) {
	r := newRig(t)
	defer r.close()
	r.grow(300)
	r.publish()
	server := httptest.NewServer(r.log.Handler())
	defer server.Close()
	c, err := remote.New(server.URL, testVkey(t), remote.Options{})
	check(t, err)
	defer c.Close()
	var stop atomic.Bool
	var growing sync.WaitGroup
	growing.Go(func() {
		for !stop.Load() {
			if err := r.log.Commit(t.Context(), grower(3)); err != nil {
				t.Error(err)
				return
			}
			if err := r.log.Publish(t.Context()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 3 {
		got, err := Remote(t.Context(), c, publicOptions())
		if err != nil || !got.OK() {
			t.Errorf("from outside: %v, %v", got.Findings, err)
		}
		o := r.options() // reads the mark
		o.Signatures = false
		s, err := r.log.SnapshotOf(t.Context(), o.Mark.Size) // which the mark leads
		check(t, err)
		got, err = Store(t.Context(), s.Reader, o)
		if err != nil || !got.OK() || got.TreeSize != s.Tree.Size {
			t.Errorf("from inside: %v, %v, size %d of %d", got.Findings, err, got.TreeSize, s.Tree.Size)
		}
		s.Close()
	}
	stop.Store(true)
	growing.Wait()
}

// TestAnotherLogIsFound asks a log for what it is not.
func TestAnotherLogIsFound(t *testing.T) {
	r := newRig(t)
	defer r.close()
	r.grow(3)
	r.publish()
	_, c := serve(t, r.log.Handler())
	for _, tt := range []struct {
		name   string
		change func(*Options)
	}{
		{"of another indexer", func(o *Options) { o.Indexer = "spiffe://indexer.example/two" }},
		{"signed by another", func(o *Options) { o.Keys, o.Signatures = noKeys{}, true }},
	} {
		o := publicOptions()
		tt.change(&o)
		if got, err := Remote(t.Context(), c, o); err != nil || got.Found() < 5 {
			t.Errorf("%s: %v, %v", tt.name, got.Findings, err)
		}
	}
	other, err := remote.New(c.URL(), strings.Replace(testVkey(t), "log.example", "log.elsewhere", 1), remote.Options{})
	if err == nil {
		defer other.Close()
		_, err = Remote(t.Context(), other, publicOptions())
	}
	if err == nil {
		t.Error("a key that is none")
	}
}
