package indexer

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// A bound is one row of doc/limits.md: what of which method is bounded, by how much.
type bound struct {
	of, what string
	by       any
}

// size puts octets in words.
type size uint64

func (s size) String() string {
	switch {
	case s%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", s>>20)
	case s%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", s>>10)
	}
	return fmt.Sprintf("%d octets", uint64(s))
}

// span puts a time in words, without zeros.
type span time.Duration

func (s span) String() string {
	text := time.Duration(s).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return strings.TrimSuffix(text, "h0m")
}

// bounds are those of every method, and of a connection before there is one.
func bounds() []bound {
	l := DefaultLimits()
	return append([]bound{
		{"connection", "at once, of all identities", maxConnections},
		{"connection", "at once, of one identity", connectionsEach},
		{"connection", "TLS and the first octets of HTTP/2", span(handshakeTime)},
		{"connection", "without a session or a call", span(idleTime)},
		{"connection", "in which a peer takes nothing off the wire", span(stuckTime)},
		{"connection", "window of flow control", size(window)},
		{"connection", "streams at once, sessions", 4},
		{"connection", "streams at once, feed", feedCalls},
		{"Session", "of one identity; a newer one ends the older", 1},
		{"Session", "one message", size(maxMessage)},
		{"Session", "until each of the first two frames", span(helloTimeout)},
		{"Session", "in which the peer says nothing", span(silence)},
		{"Session", "in which the peer takes nothing that it is sent", span(stuckTime)},
		{"Session", "frames that wait to be served", queueIn},
		{"Session", "sessions that begin, single calls and revocations a second, of one publisher; more wait", callsPerSecond},
		{"Session", "of them at once", callsAtOnce},
		{"Session", "frames without content a second, of one publisher; more wait", framesPerSecond},
		{"Session: Batch", "one chunk", size(l.ChunkBytes)},
		{"Session: Batch", "items", l.BatchItems},
		{"Session: Batch", "items that are asked for while other publishers deliver", sharedItems},
		{"Session: Batch", "behind the last batch of another, in which it counts as delivering", span(sharedFor)},
		{"Session: Batch", "decompressed, without the list of items", size(l.BatchBytes)},
		{"Session: Batch", "the list of items", size(itemBytes)},
		{"Session: Batch", "one page in it", size(l.AloneBytes)},
		{"Session: Batch", "a page that travels alone", size(l.PageBytes)},
		{"Session: Batch", "pages that travel alone, at once, of all publishers", aloneAtOnce},
		{"Session: Batch", "batches that are worked on at once, of all publishers", l.Batches},
		{"Session: Batch", "memory of the batches in hand, of all publishers", size(l.batchMemory())},
		{"Session: Batch", "that may begin to come without a credit", size(creditInitial)},
		{"Session: Batch", "that wait for memory or their turn", span(patience)},
		{"Session: Batch", "between two chunks", span(chunkTimeout)},
		{"Session: Batch", "all chunks", span(frameTimeout)},
		{"Session: Batch", "octets a second that have to come, behind the first minute", size(leastRate)},
	}, moreBounds()...)
}

func moreBounds() []bound {
	return []bound{
		{"Session: RangeRequest", "rows", rangeHashes},
		{"Session: RangeRequest", "places", rangePlaces},
		{"Session: Freshness", "signals", maxSignals},
		{"Session: ContentRequest", "pages", maxAsked},
		{"Revoke", "one object", size(envelope.MaxSize)},
		{"Status", "answers a second, of all publishers", postsPerSecond},
		{"Status", "lines of one answer", maxHolders},
		{"Subscribe", "one request", size(feedRequest)},
		{"Subscribe", "at once, of all consumers", feedStreams},
		{"Subscribe", "of one consumer and purpose; a newer one ends the older", 1},
		{"Subscribe", "in which an item has to be taken", span(feedStuck)},
		{"Purged", "one request", size(feedRequest)},
		{"POST /revocation", "one object", size(envelope.MaxSize)},
		{"POST /revocation", "a second, whoever sends them; more are refused", postsPerSecond},
		{"POST /revocation", "of them at once", postsAtOnce},
	}
}

// TestEveryLimitIsDocumented with the value that counts, and no method is without.
func TestEveryLimitIsDocumented(t *testing.T) {
	var b strings.Builder
	limited := make(map[string]bool)
	for _, r := range bounds() {
		if v := reflect.ValueOf(r.by); v.IsZero() {
			t.Errorf("%s, %s: no bound", r.of, r.what)
		}
		limited[r.of] = true
		fmt.Fprintf(&b, "| `%s` | %s | %v |\n", r.of, r.what, r.by)
	}
	for _, d := range []grpc.ServiceDesc{oiv1.OutboundIndexing_ServiceDesc, oiv1.Feed_ServiceDesc} {
		for _, m := range d.Methods {
			if !limited[m.MethodName] {
				t.Errorf("method %s has no limit", m.MethodName)
			}
		}
		for _, s := range d.Streams {
			if !limited[s.StreamName] {
				t.Errorf("method %s has no limit", s.StreamName)
			}
		}
	}
	page, err := os.ReadFile("../../doc/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "\n"+b.String()) {
		t.Errorf("doc/limits.md does not hold these rows; replace its table by them:\n%s", b.String())
	}
}
