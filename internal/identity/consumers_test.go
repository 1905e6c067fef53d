package identity

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

var consumerNoon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// newConsumers is an empty folder, and a consumer with its card.
func newConsumers(t testing.TB) (*Consumers, *Consumer) {
	t.Helper()
	local, err := Create(t.TempDir(), Options{Identity: "spiffe://search.example/reader", Role: Reader, Now: consumerNoon.Add(-time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	trust, err := OpenTrust(filepath.Join(t.TempDir(), "trust"), TrustOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenConsumers(filepath.Join(t.TempDir(), "consumers"), trust)
	if err != nil {
		t.Fatal(err)
	}
	return c, &Consumer{Identity: local.Name(), Purposes: []string{"archive", "search.index"}, Card: local.Card, AddedAt: consumerNoon}
}

func TestAConsumersFileIsWhatItMayDo(t *testing.T) {
	c, r := newConsumers(t)
	if _, err := c.Lookup(r.Identity); !errors.Is(err, ErrUnknownPeer) {
		t.Errorf("before it is added: %v", err)
	}
	if err := c.Add(r); err != nil {
		t.Fatal(err)
	}
	again := &Consumer{Identity: r.Identity, Purposes: []string{"archive"}, AddedAt: consumerNoon.Add(time.Hour)}
	if err := c.Add(again); err != nil {
		t.Fatal(err)
	}
	got, err := c.Lookup(r.Identity)
	if err != nil || !slices.Equal(got.Purposes, again.Purposes) || got.Card == nil || !got.AddedAt.Equal(r.AddedAt) {
		t.Errorf("added again: %+v, %v", got, err)
	}
	if all, err := c.List(); err != nil || len(all) != 1 {
		t.Errorf("List = %v, %v", all, err)
	}
}

// TestARemovedConsumerIsKnownForWhatItHad goes through all that an operator can say of
// one: purposes that it loses are former ones, and one that was removed and is added
// again is another consumer, whose cursors lead nowhere.
func TestARemovedConsumerIsKnownForWhatItHad(t *testing.T) {
	c, r := newConsumers(t)
	add := func(after time.Duration, purposes ...string) func() error {
		return func() error {
			return c.Add(&Consumer{Identity: r.Identity, Purposes: purposes, Card: r.Card, AddedAt: consumerNoon.Add(after)})
		}
	}
	for _, step := range []struct {
		name     string
		do       func() error
		purposes string
		former   string
		added    time.Duration
	}{
		{"added", add(0, "archive", "search.index"), "[archive search.index]", "[]", 0},
		{"narrowed", add(time.Hour, "archive"), "[archive]", "[search.index]", 0},
		{"widened again", add(time.Hour, "archive", "search.index"), "[archive search.index]", "[]", 0},
		{"removed", func() error { return c.Remove(r.Identity) }, "[]", "[archive search.index]", 0},
		{"removed again", func() error { return c.Remove(r.Identity) }, "[]", "[archive search.index]", 0},
		{"added anew", add(2*time.Hour, "rag.retrieve"), "[rag.retrieve]", "[archive search.index]", 2 * time.Hour},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		got, err := c.Lookup(r.Identity)
		if err != nil || fmt.Sprint(got.Purposes) != step.purposes || fmt.Sprint(got.Former) != step.former || !got.AddedAt.Equal(consumerNoon.Add(step.added)) {
			t.Errorf("%s: %+v, %v", step.name, got, err)
		}
	}
	if err := c.Forget(r.Identity); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{"forgotten again": c.Forget(r.Identity), "removed": c.Remove(r.Identity)} {
		if !errors.Is(err, ErrUnknownPeer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABadConsumerIsNotAdded(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(r *Consumer)
	}{
		{"no purpose", func(r *Consumer) { r.Purposes = nil }},
		{"a purpose twice", func(r *Consumer) { r.Purposes = []string{"archive", "archive"} }},
		{"purposes in disorder", func(r *Consumer) { r.Purposes = []string{"search.index", "archive"} }},
		{"the card of somebody else", func(r *Consumer) { r.Identity = "spiffe://search.example/other" }},
		{"a name that is none", func(r *Consumer) { r.Identity = "reader" }},
		{"neither card nor authority", func(r *Consumer) { r.Card = nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, r := newConsumers(t)
			tt.change(r)
			if err := c.Add(r); err == nil {
				t.Error("it is added")
			}
			if all, err := c.List(); err != nil || len(all) != 0 {
				t.Errorf("List = %v, %v", all, err)
			}
		})
	}
}

// TestABadConsumerFileLetsNobodyIn: there is no earlier record to fall back on.
func TestABadConsumerFileLetsNobodyIn(t *testing.T) {
	c, r := newConsumers(t)
	if err := c.Add(r); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(c.dir, fileName(r.Identity))
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(c.dir, fileName("spiffe://search.example/other"))
	both := *r
	both.Former = []string{"archive"}
	conflict, err := encodeConsumer(&both)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string][]byte{"cut short": raw[:len(raw)-1], "not canonical": append(slices.Clone(raw), '\n'), "empty": nil,
		"a purpose that it has and had": conflict} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Lookup(r.Identity); err == nil {
			t.Errorf("%s: %+v is found", name, got)
		}
		if all, err := c.List(); err == nil || len(all) != 0 {
			t.Errorf("%s: List = %v, %v", name, all, err)
		}
	}
	if err := os.WriteFile(other, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Lookup("spiffe://search.example/other"); err == nil {
		t.Errorf("another consumer's file lets %+v in", got)
	}
}

// FuzzConsumer: a consumer's file is refused, or is what encodeConsumer writes.
func FuzzConsumer(f *testing.F) {
	_, r := newConsumers(f)
	good, err := encodeConsumer(r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"added_at":"2026-11-03T12:00:00Z","identity":"spiffe://a/b","purposes":["archive"],"third_party":true}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := decodeConsumer(raw)
		if err != nil {
			return
		}
		again, err := encodeConsumer(r)
		if err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%q becomes %q, %v", raw, again, err)
		}
		if len(raw) > 2*envelope.MaxSize+4096 {
			t.Errorf("%d octets are taken", len(raw))
		}
	})
}
