// Package witnesstest has a witness to test against: it keeps to C2SP
// tlog-witness, as TestTheWitnessOfTheseTestsIsHonest shows, until a test makes
// it lie.
package witnesstest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"

	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// A Witness cosigns the checkpoints of one log. It is an http.Handler for
// add-checkpoint.
type Witness struct {
	Key  witness.Key
	Name string // its key's

	vkey note.Verifier
	key  ed25519.PrivateKey

	mu    sync.Mutex
	size  uint64
	root  []byte
	asked int
	lie   http.HandlerFunc
	now   func() time.Time
}

// New is a witness of the log with this verifier key. seed makes its key.
func New(t testing.TB, name, logVKey string, seed byte) *Witness {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
	k, err := witness.NewKey(name, key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	v, err := note.NewVerifier(logVKey)
	if err != nil {
		t.Fatal(err)
	}
	return &Witness{Key: k, Name: name, vkey: v, key: key, root: rfc6962.DefaultHasher.EmptyRoot(), now: time.Now}
}

// Serve listens, and returns the submission prefix.
func (w *Witness) Serve(t testing.TB) string {
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	return s.URL
}

// Line is the line of a policy file that names the witness.
func (w *Witness) Line(name, url string) string {
	return fmt.Sprintf("witness %s %s %s\n", name, w.Key, url)
}

// Lie makes h answer in the witness's place; nil makes it honest again.
func (w *Witness) Lie(h http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lie = h
}

// Forget makes it remember another tree than it has seen.
func (w *Witness) Forget(size uint64, root []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.size, w.root = size, root
}

// Size is that of the last tree that it cosigned.
func (w *Witness) Size() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// Asked is how often it was asked.
func (w *Witness) Asked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// Cosign is the witness's signature line over the text of a note.
func (w *Witness) Cosign(t testing.TB, text string, at time.Time) string {
	t.Helper()
	line, err := witness.Cosign(w.Name, w.key, text, at)
	if err != nil {
		t.Fatal(err)
	}
	return line
}

func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	// Read first, so that a lie that waits sees its client go.
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
	w.mu.Lock()
	w.asked++
	lie := w.lie
	w.mu.Unlock()
	if lie != nil {
		lie(rw, r)
		return
	}
	if err != nil || r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/add-checkpoint") {
		http.Error(rw, "no such request", http.StatusNotFound)
		return
	}
	w.addCheckpoint(rw, body)
}

func (w *Witness) addCheckpoint(rw http.ResponseWriter, body []byte) {
	head, signed, _ := bytes.Cut(body, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	old, err := strconv.ParseUint(strings.TrimPrefix(lines[0], "old "), 10, 64)
	path, bad := hashes(lines[1:])
	n, unsigned := note.Open(signed, note.VerifierList(w.vkey))
	if err != nil || bad != nil || unsigned != nil {
		http.Error(rw, "not signed by the log", http.StatusForbidden)
		return
	}
	text := strings.Split(n.Text, "\n")
	size, err := strconv.ParseUint(text[1], 10, 64)
	root, bad := base64.StdEncoding.DecodeString(text[2])
	if err != nil || bad != nil || old > size {
		http.Error(rw, "malformed", http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if old != w.size {
		rw.Header().Set("Content-Type", "text/x.tlog.size")
		rw.WriteHeader(http.StatusConflict)
		fmt.Fprintf(rw, "%d\n", w.size)
		return
	}
	if err := proof.VerifyConsistency(rfc6962.DefaultHasher, old, size, path, w.root, root); err != nil {
		http.Error(rw, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	line, err := witness.Cosign(w.Name, w.key, n.Text, w.now())
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	w.size, w.root = size, root
	io.WriteString(rw, line)
}

func hashes(lines []string) ([][]byte, error) {
	var all [][]byte
	for _, line := range lines {
		h, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}
