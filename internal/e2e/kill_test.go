package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// programs are the real binaries over a pair's folders.
type programs struct {
	*pair.Pair
	t       testing.TB
	bin     string
	indexer *exec.Cmd
	public  string
	notes   [][]byte // every checkpoint note that was served
}

// newPrograms sets a pair up whose two sides run as processes.
func newPrograms(t testing.TB, pages int) *programs { return programsOf(t, pair.New(t, pages)) }

func programsOf(t testing.TB, p *pair.Pair) *programs {
	p.StopIndexer()
	config := fmt.Sprintf("listen: %s\npublic: %s\nadmin: \"off\"\nlog_level: error\npublish_interval: 100ms\n", p.Address, p.Public)
	pair.Check(t, os.WriteFile(filepath.Join(p.Idx, "indexerd.yaml"), []byte(config), 0o644))
	pair.Check(t, os.WriteFile(filepath.Join(p.Pub, "publisherd.yaml"), []byte("log_level: error\n"), 0o644))
	return &programs{Pair: p, t: t}
}

// startIndexerd starts the daemon and waits until it listens.
func (p *programs) startIndexerd(flags ...string) {
	p.t.Helper()
	run := filepath.Join(p.Idx, "run.json")
	pair.Check(p.t, os.RemoveAll(run))
	p.indexer = exec.Command(filepath.Join(p.bin, "indexerd"), append([]string{"run", "--dir", p.Idx}, flags...)...)
	var stderr bytes.Buffer
	p.indexer.Stderr = &stderr
	pair.Check(p.t, p.indexer.Start())
	p.t.Cleanup(func() { p.indexer.Process.Kill() })
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		b, err := os.ReadFile(run)
		var r struct{ Public string }
		if err == nil && json.Unmarshal(b, &r) == nil {
			p.public = "http://" + r.Public
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("indexerd does not start: %s", stderr.String())
		}
	}
}

// push starts one push as a process.
func (p *programs) startPush() (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(filepath.Join(p.bin, "publisherd"), "push", "--json", "--dir", p.Pub)
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	pair.Check(p.t, cmd.Start())
	return cmd, out
}

// pushAll runs one push to its end.
func (p *programs) pushAll() {
	p.t.Helper()
	push, out := p.startPush()
	if err := push.Wait(); err != nil {
		p.t.Fatalf("push: %v: %s", err, out)
	}
}

// keepNote keeps the checkpoint that the log serves now.
func (p *programs) keepNote() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if b, err := fetch(ctx, p.public+"/checkpoint"); err == nil {
		p.notes = append(p.notes, b)
	}
}

func fetch(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, resp.Status)
	}
	return b.Bytes(), nil
}

// killRounds pushes an ever-changing site and kills one side or the other, at
// random moments within so many milliseconds, rounds times; then lets a push
// through and checks all. pages are files relative to the site.
func (p *programs) killRounds(rounds int, pages []string, within int) {
	p.t.Helper()
	p.bin = buildPrograms(p.t)
	seed := uint64(time.Now().UnixNano())
	p.t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	p.startIndexerd()
	cut := 0
	for round := range rounds {
		for range 1 + random.IntN(len(pages)/4) {
			p.edit(pages[random.IntN(len(pages))], fmt.Sprintf("words of round %d", round))
		}
		push, _ := p.startPush()
		time.Sleep(time.Duration(random.IntN(within)) * time.Millisecond)
		p.keepNote()
		if random.IntN(2) == 0 {
			push.Process.Kill()
		} else {
			p.indexer.Process.Kill()
			p.indexer.Wait()
			p.startIndexerd()
		}
		if push.Wait() != nil {
			cut++
		}
		p.keepNote()
	}
	p.t.Logf("%d of %d pushes were cut", cut, rounds)
	push, out := p.startPush()
	if err := push.Wait(); err != nil {
		p.t.Fatalf("the last push: %v: %s", err, out)
	}
	p.checkAll(pages)
}

// edit appends words to a page's body.
func (p *programs) edit(page, words string) {
	p.t.Helper()
	path := filepath.Join(p.Site, page)
	b, err := os.ReadFile(path)
	pair.Check(p.t, err)
	if at := bytes.LastIndex(b, []byte("</main>")); at >= 0 {
		b = append(b[:at:at], []byte("<p>"+words+"</p></main>")...)
	} else if at := bytes.Index(b, []byte("</h1>")); at >= 0 {
		b = append(b[:at:at], append([]byte("</h1><p>"+words+"</p>"), b[at+len("</h1>"):]...)...)
	}
	pair.Check(p.t, os.WriteFile(path, b, 0o644))
}

// checkAll looks at both sides after the storm.
func (p *programs) checkAll(pages []string) {
	p.t.Helper()
	time.Sleep(300 * time.Millisecond) // the log publishes its last checkpoint
	p.keepNote()
	peer := p.VKey()
	last, err := translog.OpenNote(p.notes[len(p.notes)-1], peer)
	pair.Check(p.t, err)
	for _, n := range p.notes {
		tree, err := translog.OpenNote(n, peer)
		pair.Check(p.t, err)
		b, err := fetch(p.t.Context(), fmt.Sprintf("%s/proof/consistency?from=%d&to=%d", p.public, tree.Size, last.Size))
		pair.Check(p.t, err)
		var proof translog.ConsistencyProof
		pair.Check(p.t, json.Unmarshal(b, &proof))
		if err := proof.Verify(tree, last); err != nil {
			p.t.Errorf("a checkpoint of size %d that was served is contradicted: %v", tree.Size, err)
		}
	}
	for i := range last.Size {
		if _, err := fetch(p.t.Context(), fmt.Sprintf("%s/entry/%d.json", p.public, i)); err != nil {
			p.t.Errorf("entry %d of %d: %v", i, last.Size, err)
		}
	}
	p.indexer.Process.Kill()
	p.indexer.Wait()
	p.StartIndexer()
	if got := p.Pages(); got != uint64(len(pages)) {
		p.t.Errorf("%d pages are held, want %d", got, len(pages))
	}
	if r := p.Push(); r.Sent != 0 || r.Deleted != 0 {
		p.t.Errorf("after everything was delivered: %+v", r)
	}
	for _, page := range pages {
		p.SameFile(page)
	}
	p.EveryReceiptHolds()
}
