package indexer_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/gateway"
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
)

// longText is a text of about n octets that can hardly be compressed.
func longText(n int) string {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	var b strings.Builder
	for b.Len() < n {
		for range 8 {
			b.WriteByte("abcdefghijklmnopqrstuvwxyzABCDEF"[random.IntN(32)])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// A download has begun: its header has come, and little of its body.
type download struct {
	what string
	resp *http.Response
	had  int64
}

// begin asks for a path, and reads the first octets. The client's kernel takes little.
func (m *mirrored) begin(what, path string, fields ...string) *download {
	m.t.Helper()
	conn, err := net.Dial("tcp", m.s.Listener.Addr().String())
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { conn.Close() })
	if err := errors.Join(conn.(*net.TCPConn).SetReadBuffer(32<<10), conn.SetDeadline(time.Now().Add(time.Minute))); err != nil {
		m.t.Fatal(err)
	}
	fields = append(fields, "Host: mirror.example", "", "")
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\n%s", path, strings.Join(fields, "\r\n")); err != nil {
		m.t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	d := &download{what: what, resp: resp}
	if d.had, err = io.CopyN(io.Discard, resp.Body, min(16<<10, resp.ContentLength)); err != nil {
		m.t.Fatalf("%s: %s, %v", what, resp.Status, err)
	}
	return d
}

// end reads the rest, and reports whether it was cut off.
func (d *download) end(t *testing.T) bool {
	t.Helper()
	n, err := io.Copy(io.Discard, d.resp.Body)
	d.had += n
	switch whole := d.resp.ContentLength; {
	case err == nil && d.had == whole:
		return false
	case err == nil || d.had > whole/2:
		t.Errorf("%s: %d of %d octets came, %v", d.what, d.had, whole, err)
	}
	return true
}

// TestADownloadIsCutWherePermissionEnds begins to load a page, another one and the
// snapshot that holds both, and lets something happen before they have come.
func TestADownloadIsCutWherePermissionEnds(t *testing.T) {
	const size = 2 << 20
	one, other := indexer.Site+"one", indexer.Site+"other"
	for _, tt := range []struct {
		name                 string
		happen               func(m *mirrored)
		one, other, snapshot bool // are cut
	}{
		{"nothing", func(*mirrored) {}, false, false, false},
		{"consent is withdrawn", func(m *mirrored) { m.Revoke(grants.DispositionStop) }, true, true, true},
		{"consent is withdrawn with all that is held", func(m *mirrored) { m.Revoke(grants.DispositionDelete) }, true, true, true},
		{"a newer policy passes nothing on", func(m *mirrored) {
			m.Renew(func(d *grants.Draft) { d.Lifetime = 20 * 24 * time.Hour })
		}, true, true, true},
		{"the grant expires", func(m *mirrored) { m.Forward(20 * 24 * time.Hour) }, true, true, true},
		{"a page is deleted", func(m *mirrored) { m.Push(map[string]string{one: ""}) }, true, false, true},
		{"a page has other words", func(m *mirrored) { m.Push(map[string]string{one: "Other words."}) }, false, false, false},
		{"a page is new", func(m *mirrored) { m.Push(map[string]string{indexer.Site + "new": "Words."}) }, false, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMirrored(t, passedOn, 0)
			m.Push(map[string]string{one: longText(size), other: longText(size + 1)})
			downloads := []*download{
				m.begin("the page", "/"+m.id+"/llm/"+murl(one)),
				m.begin("the other page", "/"+m.id+"/llm/"+murl(other)),
				m.begin("the snapshot", "/"+m.id+"/"+m.id+"-snapshot.scp.zst"),
			}
			tt.happen(m)
			cut := uint64(0)
			for i, want := range []bool{tt.one, tt.other, tt.snapshot} {
				d := downloads[i]
				if d.resp.ContentLength < size {
					t.Fatalf("%s has %d octets alone", d.what, d.resp.ContentLength)
				}
				got := d.end(t)
				if got != want {
					t.Errorf("%s is cut off: %t, want %t", d.what, got, want)
				}
				if got {
					cut++
				}
			}
			if f := m.g.Figures(); f.Cut != cut {
				t.Errorf("%d are counted, want %d", f.Cut, cut)
			}
		})
	}
}

// TestAClientHasSoManyRequestsAtOnce has a client, as a proxy names it, load more than
// it may at once. Another one is not hindered.
func TestAClientHasSoManyRequestsAtOnce(t *testing.T) {
	m := newMirrored(t, passedOn, 0)
	m.serve(gateway.Config{Proxied: true})
	m.Push(map[string]string{indexer.Site + "a": longText(1 << 20)})
	path := "/" + m.id + "/llm/" + murl(indexer.Site+"a")
	const most = 32
	var all []*download
	for i := range most {
		all = append(all, m.begin(fmt.Sprint("download ", i), path, "X-Forwarded-For: 192.0.2.1"))
	}
	if a := m.ask("GET", path, "X-Forwarded-For: 192.0.2.1"); a.status != "429 Too Many Requests" || a.field("Retry-After") == "" {
		t.Errorf("one more: %s, %q", a.status, a.lines)
	}
	if a := m.ask("GET", path, "X-Forwarded-For: 192.0.2.2"); a.status != "200 OK" {
		t.Errorf("of another client: %s", a.status)
	}
	for _, d := range all {
		if d.end(t) {
			t.Errorf("%s is cut off", d.what)
		}
	}
	if a := m.ask("GET", path, "X-Forwarded-For: 192.0.2.1"); a.status != "200 OK" {
		t.Errorf("behind them: %s", a.status)
	}
}
