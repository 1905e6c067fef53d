package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/thief"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// run runs a program to its end, and gives what it printed.
func (p *programs) run(program string, args ...string) (string, error) {
	p.t.Helper()
	cmd := exec.Command(filepath.Join(p.bin, program), args...)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err := cmd.Run()
	p.t.Logf("%s %q: %v %s", program, args, err, problems.String())
	return out.String(), err
}

// withdraw withdraws consent, and waits for the acknowledgement that all is deleted.
func (p *programs) withdraw(args ...string) {
	p.t.Helper()
	args = append(append([]string{"grant", "revoke"}, args...), "--disposition", "delete", "--dir", p.Pub, "--json")
	out, err := p.run("publisherd", args...)
	pair.Check(p.t, err)
	var told publisher.RevocationStatus
	pair.Check(p.t, json.Unmarshal([]byte(out), &told))
	pub, err := publisher.Open(publisher.Config{Dir: p.Pub})
	pair.Check(p.t, err)
	defer pub.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		v, err := pub.Revocation(told.ID)
		pair.Check(p.t, err)
		if v.Settled() {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("the deletion is not acknowledged: %s", out)
		}
		pair.Check(p.t, pub.DeliverRevocations(p.t.Context(), p.Name))
	}
}

// stolen is the disk of an indexer that was killed at this moment.
func (p *programs) stolen() string {
	p.t.Helper()
	p.indexer.Process.Kill()
	p.indexer.Wait()
	os.Remove(filepath.Join(p.Idx, "admin.sock")) // a socket is not copied
	disk := filepath.Join(p.t.TempDir(), "disk")
	pair.CopyDir(p.t, p.Idx, disk)
	return disk
}

// The words of three pages: of two that are deleted, one after the other; of one of the
// same agreement as the first; and of another agreement's.
const (
	firstGone = "heliotrope"
	nextGone  = "windlass"
	ofAnother = "quicksilver"
)

// TestAThiefFindsNothingThatWasDeleted gives a thief the disk of a real indexerd before
// and after deletions, some of an agreement's pages first and then all of it, and has
// every key that there is tried on all that is sealed. With the keys that are left
// neither the disk, nor any disk or backup from before, gives a deleted page; what is
// held still is found each time, so that it is not the thief who is at fault.
func TestAThiefFindsNothingThatWasDeleted(t *testing.T) {
	t.Parallel()
	p := programsOf(t, pair.Bare(t))
	p.Write(0, firstGone) // below /d0/
	p.Write(7, nextGone)  // likewise
	p.Write(1, ofAnother) // below /d1/
	of := p.Grant("/d0/")
	p.Grant("/d1/")
	p.bin = buildPrograms(t)
	p.startIndexerd()
	p.pushAll()
	backups := t.TempDir()
	before, restored := filepath.Join(backups, "before"), filepath.Join(backups, "restored")
	for _, dir := range []string{before, restored} {
		_, err := p.run("indexerd", "backup", dir, "--dir", p.Idx)
		pair.Check(t, err)
	}
	finds := func(when, stored, keys string, want ...string) {
		t.Helper()
		loot := thief.Try(t, stored, keys)
		t.Logf("%s: %d of %d sealed, %d keys", when, loot.Opened, loot.Sealed, loot.Keys)
		for _, words := range []string{firstGone, nextGone, ofAnother} {
			wanted := strings.Contains(strings.Join(want, " "), words)
			if loot.Has(words) != wanted {
				t.Errorf("%s: the page about a %s is found: %t, want %t", when, words, !wanted, wanted)
			}
		}
	}
	finds("the backup with its keys", before, before, firstGone, nextGone, ofAnother)
	first := p.stolen()
	finds("the disk before", first, first, firstGone, nextGone, ofAnother)

	p.startIndexerd()
	p.withdraw(of.Series, "--scope", pair.PageURL(0))
	disk := p.stolen()
	finds("the disk after some is deleted", disk, disk, nextGone, ofAnother)
	finds("the backup with the keys that are left", before, disk, ofAnother)
	finds("the disk before with the keys that are left", first, disk, ofAnother)

	p.startIndexerd()
	p.withdraw(of.Series)
	last := p.stolen()
	finds("the disk after all is deleted", last, last, ofAnother)
	finds("the backup with those keys", before, last, ofAnother)
	finds("the first disk with those keys", first, last, ofAnother)
	finds("the second disk with those keys", disk, last, ofAnother)

	pair.Check(t, os.RemoveAll(filepath.Join(restored, "keys", "data")))
	pair.CopyDir(t, filepath.Join(last, "keys", "data"), filepath.Join(restored, "keys", "data"))
	p.servesNothing(restored, firstGone, nextGone)
}

// servesNothing runs an indexer that was restored from a backup, and asks its own exits
// for pages that were deleted since.
func (p *programs) servesNothing(dir string, words ...string) {
	p.t.Helper()
	p.Idx = dir
	p.startIndexerd("--trust-restored-store")
	export := filepath.Join(p.t.TempDir(), "out")
	told, fed := p.run("indexerd", "feed", "--purpose", "search.index", "--dir", dir)
	_, exported := p.run("indexerd", "export", "--purpose", "search.index", "--format", "jsonl", "--out", export, "--dir", dir)
	if fed != nil || exported != nil {
		p.t.Fatalf("a store that lacks some keys tells nothing of the rest: feed %v, export %v", fed, exported)
	}
	files, err := filepath.Glob(filepath.Join(export, "pages", "*"))
	pair.Check(p.t, err)
	var written strings.Builder
	for _, file := range files {
		lines, err := os.ReadFile(file)
		pair.Check(p.t, err)
		written.WriteString(plainOf(p.t, string(lines)))
	}
	for what, all := range map[string]string{"feed": plainOf(p.t, told), "export": written.String()} {
		for _, w := range append(words, ofAnother) {
			if strings.Contains(all, w) != (w == ofAnother) {
				p.t.Errorf("the %s of the restored store tells of a %s: %t", what, w, w != ofAnother)
			}
		}
	}
	loot := thief.Try(p.t, p.stolen(), dir)
	if loot.Has(words[0]) || loot.Has(words[1]) || !loot.Has(ofAnother) {
		p.t.Errorf("the restored disk opens %q", loot.Plain)
	}
}

// plainOf gives the lines of a feed with their payloads decoded.
func plainOf(t testing.TB, lines string) string {
	t.Helper()
	var all strings.Builder
	for line := range strings.Lines(lines) {
		var l struct {
			Payload []byte `json:"payload"`
		}
		pair.Check(t, json.Unmarshal([]byte(line), &l))
		all.WriteString(line)
		all.Write(l.Payload)
	}
	return all.String()
}
