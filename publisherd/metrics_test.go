package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/internal/tally"
	"github.com/uzpif-oi/uzpif-oi/publisherd/publisher"
)

// someFigures have a value of their own for everything.
func someFigures() (figures, error) {
	f := figures{Figures: healthyFigures(), outboxes: map[string]outbox{"a": {age: 2 * time.Second, stuck: time.Second}}}
	s := &f.Status.Indexers[0]
	s.Backlog, s.Pages, s.Pending, s.ExpiresAt = 3, 4, true, envelope.At(time.Unix(5, 0))
	s.Revocations = []publisher.RevocationStatus{{State: "done"}, {State: "deleting"}}
	s.Refused, s.Alarm, s.LimitedUntil = &publisher.RefusedStatus{Count: 6}, new(publisher.Alarm), envelope.At(time.Unix(7, 0))
	p := &f.Pulse.Peers[0]
	p.Sessions, p.Batches, p.Pages, p.WireIn, p.WireOut, p.TreeAt = 8, 9, 10, 11, 12, time.Unix(990, 0)
	p.Ends, p.Refusals = map[string]uint64{"silent": 13}, map[string]uint64{"limit": 14}
	f.Pulse.Scans = []publisher.ScanFigures{{Collection: "docs", Good: time.Unix(985, 0), Scans: 15, Failed: 16}}
	histogram := func(n uint64) tally.Histogram {
		return tally.Histogram{Count: n, Sum: 1.5, Buckets: []tally.Bucket{{UpperBound: 1, Count: n}}}
	}
	f.Pulse.Items, f.Pulse.Octets, f.Pulse.Answer, f.Pulse.Evaluate, f.Pulse.Scan = histogram(17), histogram(18), histogram(19), histogram(20), histogram(21)
	return f, nil
}

// scrape is what /metrics answers, line by line.
func scrape(t *testing.T) []string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	a := &monitor.Admin{Report: func() monitor.Report { return monitor.Report{} }, Log: log,
		Collectors: collectors(someFigures, func() cli.Loaded { return cli.Loaded{} }, func() time.Time { return time.Unix(1000, 0) }, log)}
	rec, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Host = "localhost"
	a.Handler().ServeHTTP(rec, r)
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return strings.Split(rec.Body.String(), "\n")
}

func TestAScrapeShowsTheOutbox(t *testing.T) {
	const agreed, peer = `{collection="docs",indexer="spiffe://a.test/i"} `, `{indexer="spiffe://a.test/i"} `
	lines := scrape(t)
	for _, want := range []string{
		"outbox_revisions" + agreed + "3", "outbox_age_seconds" + agreed + "2", "outbox_unmoved_seconds" + agreed + "1", "unacknowledged_batches" + agreed + "1",
		"unacknowledged_revocations" + agreed + "1", "pages" + agreed + "4", "refused_pages" + agreed + "6", "alarm" + agreed + "1", "limited" + agreed + "1",
		"grant_expires_timestamp_seconds" + agreed + "5",
		"session_open" + peer + "1", "checkpoint_age_seconds" + peer + "10", "sessions_total" + peer + "8", "receipts_total" + peer + "9",
		"acknowledged_pages_total" + peer + "10", "received_bytes_total" + peer + "11", "sent_bytes_total" + peer + "12",
		`session_ends_total{indexer="spiffe://a.test/i",reason="silent"} 13`, `refusals_total{indexer="spiffe://a.test/i",reason="limit"} 14`,
		`scans_total{collection="docs"} 15`, `failed_scans_total{collection="docs"} 16`, `scan_age_seconds{collection="docs"} 15`,
		"batch_items_count 17", "batch_bytes_count 18", "answer_seconds_count 19", "evaluate_seconds_count 20", "scan_seconds_count 21",
	} {
		if !slices.Contains(lines, prefix+want) {
			t.Errorf("there is no line %q", prefix+want)
		}
	}
}

// TestEveryMetricIsDescribed compares the names, and their types, with the tables
// of doc/metrics.md: those of publisherd alone, and those that it shares.
func TestEveryMetricIsDescribed(t *testing.T) {
	doc, err := os.ReadFile("../doc/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(uzpif_oi_[a-z0-9_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(string(doc), -1) {
		for _, ours := range []string{prefix, "uzpif_oi_store_", "uzpif_oi_certificate_", "uzpif_oi_trust_", "uzpif_oi_configuration_"} {
			if strings.HasPrefix(row[1], ours) {
				described[row[1]] = row[2]
			}
		}
	}
	for _, l := range scrape(t) {
		var name, kind string
		if n, _ := fmt.Sscanf(l, "# TYPE %s %s", &name, &kind); n != 2 || !strings.HasPrefix(name, "uzpif_oi_") {
			continue
		}
		if described[name] != kind {
			t.Errorf("doc/metrics.md says of %s %q, it is a %s", name, described[name], kind)
		}
		delete(described, name)
	}
	for name := range described {
		t.Errorf("doc/metrics.md describes %s, which is not there", name)
	}
}
