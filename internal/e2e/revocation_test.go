package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/go-json-experiment/json/jsontext"
)

// postrevocations DIR URL posts every revocation of a publisher to an
// indexer's public side, and prints the answers.
func postRevocations(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: postrevocations DIR URL")
	}
	files, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), "revocations", "*.json"))
	ts.Check(err)
	if len(files) == 0 {
		ts.Fatalf("%s: no revocation", args[0])
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		ts.Check(err)
		var file struct {
			Revocation json.RawMessage `json:"revocation"`
		}
		ts.Check(json.Unmarshal(b, &file))
		object := jsontext.Value(file.Revocation)
		ts.Check(object.Canonicalize())
		resp, err := http.Post(args[1], "application/json", bytes.NewReader(object))
		ts.Check(err)
		answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		ts.Check(err)
		ts.Check(resp.Body.Close())
		if resp.StatusCode/100 != 2 {
			ts.Fatalf("%s: %s: %s", f, resp.Status, answer)
		}
		fmt.Fprintln(ts.Stdout(), string(answer))
	}
}
