package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	indexerName   = "spiffe://search.test/indexer"
	publisherName = "spiffe://docs.test/publisher"
)

// A world is an indexer, a publisher and this consumer, each a program of its own.
type world struct {
	t   *testing.T
	bin string
	dir string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, bin: t.TempDir(), dir: t.TempDir()}
	for _, args := range [][]string{{"-C", "../..", "build", "-o", w.bin, "./indexerd", "./publisherd"}, {"build", "-o", w.bin, "."}} {
		c := exec.Command("go", args...)
		c.Env = append(os.Environ(), "GOWORK=off")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
	}
	return w
}

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *world) run(program string, args ...string) string {
	w.t.Helper()
	c := exec.Command(filepath.Join(w.bin, program), args...)
	var out, problems bytes.Buffer
	c.Stdout, c.Stderr = &out, &problems
	if err := c.Run(); err != nil {
		w.t.Fatalf("%s %v: %v\n%s%s", program, args, err, out.Bytes(), problems.Bytes())
	}
	return out.String()
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// start begins a daemon; what it returns kills it with no word of warning.
func (w *world) start(program string, args ...string) (kill func()) {
	w.t.Helper()
	c := exec.Command(filepath.Join(w.bin, program), args...)
	c.Env = append(os.Environ(), "INDEXERD_FEED=127.0.0.1:0")
	log, err := os.OpenFile(w.path(program+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		w.t.Fatal(err)
	}
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	dead := false
	kill = func() {
		if !dead {
			dead = true
			c.Process.Kill()
			c.Wait()
			log.Close()
		}
	}
	w.t.Cleanup(kill)
	return kill
}

// addresses waits until the indexer has bound its ports.
func (w *world) addresses() (listen, feed string) {
	w.t.Helper()
	var run struct{ Listen, Feed string }
	w.eventually("the indexer to run", func() bool {
		b, err := os.ReadFile(w.path("idx", "run.json"))
		return err == nil && json.Unmarshal(b, &run) == nil && run.Feed != ""
	})
	return run.Listen, run.Feed
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if ok() {
			return
		}
	}
	for _, name := range []string{"indexerd.log", "consumer.log"} {
		b, _ := os.ReadFile(w.path(name))
		w.t.Logf("%s: %s", name, b[max(0, len(b)-4000):])
	}
	w.t.Fatalf("waited in vain for %s", what)
}

// indexer starts indexerd, whose run.json may be left from before.
func (w *world) indexer() (kill func(), listen, feed string) {
	os.Remove(w.path("idx", "run.json"))
	kill = w.start("indexerd", "run", "--dir", w.path("idx"))
	listen, feed = w.addresses()
	return kill, listen, feed
}

// set up two identities of each kind, a site of n pages, and their agreement.
func (w *world) agree(n int) {
	w.run("indexerd", "init", "--dir", w.path("idx"), "--identity", indexerName, "--listen", "127.0.0.1:0", "--public", "127.0.0.1:0",
		"--admin", "off", "--endpoint", "127.0.0.1:1", "--log-url", "http://log.test")
	w.run("publisherd", "init", "--dir", w.path("pub"), "--identity", publisherName, "--origin", "https://docs.test")
	w.write("pub.card", w.run("publisherd", "card", "--dir", w.path("pub")))
	w.write("idx.card", w.run("indexerd", "card", "--dir", w.path("idx")))
	w.write("me.card", w.run("consumer", "init", "--dir", w.path("me"), "--identity", "spiffe://search.test/fulltext"))
	w.run("indexerd", "trust", "add", w.path("pub.card"), "--origin", "https://docs.test", "--dir", w.path("idx"))
	w.run("indexerd", "consumer", "add", "spiffe://search.test/fulltext", "--purpose", "search.index", "--card", w.path("me.card"), "--dir", w.path("idx"))
	w.run("consumer", "trust", "--dir", w.path("me"), w.path("idx.card"))
	for i := range n {
		w.page(i, "an ordinary page about lighthouses")
	}
}

func (w *world) page(i int, text string) {
	w.write(fmt.Sprintf("site/page-%03d.md", i), fmt.Sprintf("# Page %d\n\nThis is %s, number%d.\n", i, text, i))
}

// push brings the site to the indexer, wherever that listens now.
func (w *world) push(listen string) {
	w.t.Helper()
	w.run("publisherd", "trust", "add", w.path("idx.card"), "--endpoint", listen, "--dir", w.path("pub"))
	w.run("publisherd", "push", "--dir", w.path("pub"))
}

// found searches the index of a consumer that does not run.
func (w *world) found(words string) []string {
	w.t.Helper()
	x, err := openIndex(w.path("me", "index"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer x.close()
	urls, err := x.search(words)
	if err != nil {
		w.t.Fatal(err)
	}
	return urls
}

// holders is what the indexer says of who was handed pages.
func (w *world) holders() string {
	return w.run("indexerd", "consumer", "holders", "--json", "--dir", w.path("idx"))
}

// TestTheIndexHoldsWhatThePurposeAllows plays an agreement from its beginning to its
// end, and kills the indexer and the consumer in the middle of it, again and again.
func TestTheIndexHoldsWhatThePurposeAllows(t *testing.T) {
	const pages = 60
	w := newWorld(t)
	w.agree(pages)
	kill, listen, feedAddr := w.indexer()
	w.run("publisherd", "trust", "add", w.path("idx.card"), "--endpoint", listen, "--dir", w.path("pub"))
	w.run("publisherd", "source", "add", "site", "--kind", "site", "--location", w.path("site"), "--base-url", "https://docs.test/", "--dir", w.path("pub"))
	w.run("publisherd", "grant", "issue", "--indexer", indexerName, "--source", "site", "--scope", "https://docs.test/", "--purpose", "search.index", "--dir", w.path("pub"))
	w.push(listen)
	consume := func() (kill func()) {
		return w.start("consumer", "run", "--dir", w.path("me"), "--indexer", indexerName, "--addr", feedAddr)
	}
	settled := func(what string, ok func() bool) {
		w.eventually(what, func() bool { // each time the consumer is killed wherever it is
			stop := consume()
			time.Sleep(700 * time.Millisecond)
			stop()
			return ok()
		})
	}
	settled("all pages to be found", func() bool { return len(w.found("lighthouses")) == pages })

	// The indexer dies, and goes on with other pages and without some.
	kill()
	kill, listen, feedAddr = w.indexer()
	for i := range 10 {
		os.Remove(w.path(fmt.Sprintf("site/page-%03d.md", i)))
	}
	w.page(20, "a page about windmills")
	w.push(listen)
	kill()
	kill, listen, feedAddr = w.indexer()
	settled("deletions and the change", func() bool {
		return len(w.found("lighthouses")) == pages-11 && strings.Join(w.found("windmills"), " ") == "https://docs.test/page-020.md"
	})

	// Consent ends, and with it what is here.
	w.run("publisherd", "trust", "add", w.path("idx.card"), "--endpoint", listen, "--dir", w.path("pub"))
	stop := consume()
	w.run("publisherd", "grant", "revoke", "--all", "--disposition", "delete", "--dir", w.path("pub"))
	w.eventually("the consumer to say that all is purged", func() bool {
		return strings.Contains(w.holders(), `"open":false`) && strings.Contains(w.holders(), `"to_purge":0`)
	})
	stop()
	if left := w.found("lighthouses"); len(left) != 0 {
		t.Errorf("still found: %q", left)
	}
	status := w.run("publisherd", "status", "--ask", "--dir", w.path("pub"))
	if !strings.Contains(status, "handed to spiffe://search.test/fulltext for search.index") || !strings.Contains(status, "it may read no more; 0 deletions not confirmed") {
		t.Errorf("the publisher's status: %s", status)
	}
	kill()
}
