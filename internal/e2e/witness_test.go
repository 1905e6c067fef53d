package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/witness/witnesstest"
)

// command runs a program to its end, and gives its exit code.
func (p *programs) command(program string, args ...string) (cli.Code, string) {
	p.t.Helper()
	out, err := exec.Command(filepath.Join(p.bin, program), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	if exit != nil {
		return cli.Code(exit.ExitCode()), string(out)
	}
	return cli.OK, string(out)
}

// TestWitnessesMakeEvidenceProven runs indexerd with two witnesses. While both
// cosign, evidence is proven to whoever trusts them; when one is gone the log is
// published all the same ("open"), new evidence says that a cosignature is
// missing, and it is proven again once the witness is back.
func TestWitnessesMakeEvidenceProven(t *testing.T) {
	t.Parallel()
	const pages = 3
	p := newPrograms(t, pages)
	p.bin = buildPrograms(t)
	one, two := witnesstest.New(t, "one.example", p.VKey(), 1), witnesstest.New(t, "two.example", p.VKey(), 2)
	policy := filepath.Join(p.Idx, "witnesses")
	text := one.Line("one", one.Serve(t)) + two.Line("two", two.Serve(t)) + "group both all one two\nquorum both\n"
	pair.Check(t, os.WriteFile(policy, []byte(text), 0o644))
	config, err := os.OpenFile(filepath.Join(p.Idx, "indexerd.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	pair.Check(t, err)
	_, err = fmt.Fprintf(config, "witnesses: witnesses\nwitness_timeout: 500ms\n")
	pair.Check(t, errors.Join(err, config.Close()))
	p.startIndexerd()

	card := filepath.Join(t.TempDir(), "indexer.json")
	out, err := exec.Command(filepath.Join(p.bin, "indexerd"), "card", "--dir", p.Idx).Output() // the fingerprint goes elsewhere
	pair.Check(t, err)
	pair.Check(t, os.WriteFile(card, out, 0o644))
	// verify pushes page i with new words, and audits what became of it once
	// the log is published with so many cosignatures.
	verify := func(i, cosignatures int) (verdict, said string) {
		t.Helper()
		p.Write(i, fmt.Sprintf("words for %d cosignatures", cosignatures))
		if code, out := p.command("publisherd", "push", "--dir", p.Pub); code != cli.OK {
			t.Fatalf("push: %d, %s", code, out)
		}
		p.cosigned(uint64(i+1), cosignatures)
		file := filepath.Join(t.TempDir(), "evidence.json")
		if code, out := p.command("publisherd", "evidence", pair.PageURL(i), "-o", file, "--dir", p.Pub); code != cli.OK {
			t.Fatalf("evidence: %d, %s", code, out)
		}
		// Its exit code says whether the verdict is "proven".
		out, _ := exec.Command(filepath.Join(p.bin, "auditor"), "verify", file, "--key", card, "--witnesses", policy, "--json").Output()
		var r struct {
			Verdict string
			Reasons []string
		}
		if err := json.Unmarshal(out, &r); err != nil {
			t.Fatalf("verify: %v: %s", err, out)
		}
		return r.Verdict, strings.Join(r.Reasons, "; ")
	}
	if verdict, said := verify(0, 2); verdict != "proven" {
		t.Errorf("with both witnesses: %s: %s", verdict, said)
	}
	two.Lie(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	if verdict, said := verify(1, 1); verdict != "included" {
		t.Errorf("with one witness of two: %s: %s", verdict, said)
	}
	two.Lie(nil)
	if verdict, said := verify(2, 2); verdict != "proven" {
		t.Errorf("with both again: %s: %s", verdict, said)
	}
}

// cosigned waits until the checkpoint of the public side is of this size, and has
// so many cosignatures.
func (p *programs) cosigned(size uint64, cosignatures int) {
	p.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		b, err := fetch(p.t.Context(), p.public+"/checkpoint")
		tree, bad := translog.OpenNote(b, p.VKey())
		if err == nil && bad == nil && tree.Size == size && strings.Count(string(b), "\n— ") == 1+cosignatures {
			return
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("no checkpoint with %d cosignatures, but %s, %v", cosignatures, b, err)
		}
	}
}
