package site

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// TestALargeFileIsGivenBackBeforeItsPayloadIsMade, so that no more than two of file,
// words and payload stand beside one another: nothing refers to the file then. With
// the collector at rest, the room that is made in between is the only cause of its
// being collected.
func TestALargeFileIsGivenBackBeforeItsPayloadIsMade(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	r := (&Site{BaseURL: "https://example.com/"}).reader(nil, nil)
	gone := make(chan struct{})
	readLarge(t, r, gone)
	select {
	case <-gone:
	case <-time.After(10 * time.Second):
		t.Error("the file was still held")
	}
	runtime.KeepAlive(r)
}

// readLarge makes the page of a large file that r has read; gone is closed when that
// is collected.
func readLarge(t *testing.T, r *reader, gone chan struct{}) {
	t.Helper()
	r.buf = []byte(`<!DOCTYPE html><html lang="en"><title>Large</title><svg id="last" class="a"><g>` + strings.Repeat("<p>Many words, again &amp; again.\n", largeFile/30+1))
	runtime.AddCleanup(&r.buf[0], func(gone chan struct{}) { close(gone) }, gone)
	page, err := r.page(content.Page{URL: "https://example.com/large.html", Location: "large.html"}, kindOf("large.html"), r.buf)
	if err != nil || len(page.Payload) < largeFile/2 {
		t.Errorf("%d octets of payload, %v", len(page.Payload), err)
	}
}

func TestAPayloadIsGivenTheRoomThatItTakes(t *testing.T) {
	var words strings.Builder
	for words.Len() <= maxKept {
		words.WriteString("a \"word\"\n\\\t")
	}
	s := words.String()
	page, err := (&Site{BaseURL: "https://example.com/"}).reader(nil, nil).page(
		content.Page{URL: "https://example.com/p.html", Location: "p.html"}, kindOf("p.html"), []byte("<title>t</title><pre>"+s+"</pre>"))
	if err != nil || cap(page.Payload) > len(page.Payload)+512 {
		t.Errorf("room for %d octets, of which %d were taken, %v", cap(page.Payload), len(page.Payload), err)
	}
}
