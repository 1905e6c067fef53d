package export

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"io"

	"github.com/go-json-experiment/json"
)

// A lineReader reads lines that an export wrote.
type lineReader struct {
	in   *bufio.Reader // nil: there are none
	line []byte        // nil at the end
	key  [sha256.Size]byte
}

func (r *lineReader) step() error {
	if r.in == nil {
		return nil
	}
	line, err := r.in.ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		r.line = nil
		return nil
	}
	if err != nil {
		return err
	}
	var named struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(line, &named); err != nil {
		return err
	}
	r.line, r.key = line, sha256.Sum256([]byte(named.URL))
	return nil
}
