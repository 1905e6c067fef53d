package thirdparty

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// bad puts a proxy between the two sides of a pair.
func bad(t *testing.T, p *pair.Pair) *toxiproxy.Proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "link", "127.0.0.1:0", p.Address)
	pair.Check(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	p.Dial(proxy.Listen)
	return proxy
}

// poison adds one toxic to one direction of the link.
func poison(t *testing.T, proxy *toxiproxy.Proxy, name, kind, stream, attributes string) {
	t.Helper()
	_, err := proxy.Toxics.AddToxicJson(strings.NewReader(fmt.Sprintf(
		`{"name":%q,"type":%q,"stream":%q,"toxicity":1,"attributes":%s}`, name, kind, stream, attributes)))
	pair.Check(t, err)
}

// settled checks that everything is across, once.
func settled(t *testing.T, p *pair.Pair, pages int) {
	t.Helper()
	if r := p.Push(); r.Sent != 0 || r.Deleted != 0 {
		t.Errorf("after everything was delivered: %+v", r)
	}
	if got := p.Pages(); got != uint64(pages) {
		t.Errorf("%d pages are held, want %d", got, pages)
	}
	for i := range pages {
		p.SamePage(i)
	}
	p.EveryReceiptHolds()
}

func TestALatentLinkOnlyTakesLonger(t *testing.T) {
	p := pair.New(t, 40)
	proxy := bad(t, p)
	poison(t, proxy, "up", "latency", "upstream", `{"latency":80,"jitter":40}`)
	poison(t, proxy, "down", "latency", "downstream", `{"latency":80,"jitter":40}`)
	if r := p.Push(); r.Sent != 40 {
		t.Errorf("over a slow link: %+v", r)
	}
	settled(t, p, 40)
}

func TestResetsAtRandomOctetsLoseAndRepeatNothing(t *testing.T) {
	p := pair.New(t, 60)
	proxy := bad(t, p)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	broken := 0
	for round := range 25 {
		for range 5 {
			p.Write(random.IntN(60), fmt.Sprintf("words of round %d", round))
		}
		stream := []string{"upstream", "downstream"}[round%2]
		poison(t, proxy, "cut", "limit_data", stream, fmt.Sprintf(`{"bytes":%d}`, 200+random.IntN(12_000)))
		if _, err := p.TryPush(); err != nil {
			broken++
		}
		pair.Check(t, proxy.Toxics.RemoveToxic(t.Context(), "cut"))
	}
	t.Logf("%d of 25 pushes were cut", broken)
	if broken == 0 {
		t.Error("no push was cut: the test tests nothing")
	}
	p.Push()
	settled(t, p, 60)
}

func TestABlackHoleIsFoundWithin45Seconds(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 10)
	proxy := bad(t, p)
	p.Push()
	p.Write(1, "second")
	poison(t, proxy, "hole", "timeout", "downstream", `{"timeout":0}`)
	begin := time.Now()
	_, err := p.TryPush()
	if err == nil {
		t.Error("a push into a black hole went through")
	}
	if d := time.Since(begin); d > 45*time.Second {
		t.Errorf("found after %s: %v", d, err)
	}
	pair.Check(t, proxy.Toxics.RemoveToxic(t.Context(), "hole"))
	p.Push()
	settled(t, p, 10)
}

func TestABlackHoleUnderAnOpenSessionIsFoundWithin45Seconds(t *testing.T) {
	t.Parallel()
	p := pair.New(t, 10)
	proxy := bad(t, p)
	pub, err := publisher.Open(publisher.Config{Dir: p.Pub})
	pair.Check(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- publisher.NewDaemon(pub, publisher.DaemonOptions{Rescan: time.Minute}).Run(ctx) }()
	until(t, time.Minute, "the first push", func() bool { return p.Pages() == 10 })
	poison(t, proxy, "up", "timeout", "upstream", `{"timeout":0}`)
	poison(t, proxy, "down", "timeout", "downstream", `{"timeout":0}`)
	sessions := func() int {
		s, err := p.X.Status()
		pair.Check(t, err)
		return s.Sessions
	}
	until(t, 45*time.Second, "the dead session", func() bool { return sessions() == 0 })
	p.Write(11, "after the silence")
	pair.Check(t, proxy.Toxics.RemoveToxic(t.Context(), "up"))
	pair.Check(t, proxy.Toxics.RemoveToxic(t.Context(), "down"))
	until(t, 2*time.Minute, "the new page", func() bool { return p.Pages() == 11 })
	cancel()
	pair.Check(t, errors.Join(<-ended, pub.Close()))
	p.SamePage(11)
	p.EveryReceiptHolds()
}

// until waits for something within a time.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waiting for %s for more than %s", what, limit)
		}
	}
}

func TestASlowCloseDoesNoHarm(t *testing.T) {
	p := pair.New(t, 10)
	proxy := bad(t, p)
	poison(t, proxy, "slow", "slow_close", "downstream", `{"delay":1500}`)
	if r := p.Push(); r.Sent != 10 {
		t.Errorf("over a link that closes slowly: %+v", r)
	}
	settled(t, p, 10)
}
