package fleet

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// Pages are the HTML files below site, in their order.
func Pages(site string) (pages []string, err error) {
	err = filepath.WalkDir(site, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".html" {
			pages = append(pages, path)
		}
		return err
	})
	return pages, err
}

// Rest waits until files that were written just now are no longer read again by the
// next scan for being so new.
func Rest(ctx context.Context) error {
	select {
	case <-time.After(content.Rest + time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Edit puts a sentence into n pages that are spread over the whole folder.
func Edit(site string, n int) error {
	pages, err := Pages(site)
	edited := 0
	for i := 7; i < len(pages) && edited < n && err == nil; i += max(1, len(pages)*11/(n*15)) {
		var before []byte
		if before, err = os.ReadFile(pages[i]); err != nil {
			break
		}
		after := bytes.Replace(before, []byte("<p>"), fmt.Appendf(nil, "<p>Sentence %d of an edit, which was not there before. ", i), 1)
		if bytes.Equal(before, after) {
			continue
		}
		err = os.WriteFile(pages[i], after, 0o644)
		edited++
	}
	if err == nil && edited < n {
		err = fmt.Errorf("%s has too few pages: %d of %d edits", site, edited, n)
	}
	return err
}
