package main

import (
	"errors"
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
	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
	"github.com/uzpif-oi/uzpif-oi/internal/monitor"
	"github.com/uzpif-oi/uzpif-oi/internal/tally"
	"github.com/uzpif-oi/uzpif-oi/translog"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// scrape is what /metrics answers, line by line.
func scrape(t *testing.T, read func() (indexer.Figures, error), now time.Time) []string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	a := &monitor.Admin{Report: func() monitor.Report { return monitor.Report{} }, Log: log,
		Collectors: collectors(read, func() cli.Loaded { return cli.Loaded{} }, func() time.Time { return now }, log)}
	rec, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Host = "localhost"
	a.Handler().ServeHTTP(rec, r)
	if rec.Code != http.StatusOK {
		t.Fatalf("status %d: %s", rec.Code, rec.Body)
	}
	return strings.Split(rec.Body.String(), "\n")
}

func someFigures() (indexer.Figures, error) {
	histogram := func(n uint64) tally.Histogram {
		return tally.Histogram{Count: n, Sum: 1.5, Buckets: []tally.Bucket{{UpperBound: 0.001, Count: n - 1}, {UpperBound: 0.01, Count: n - 1}}}
	}
	return indexer.Figures{
		Log: translog.Stats{
			Queued: 1, QueueBound: 2, QueuedBytes: 3, QueueBytesBound: 4, Overloaded: 5, Commits: 6, Proposals: 7, Entries: 8,
			Commit: histogram(9), Sync: histogram(10), Group: histogram(11), Released: 120, Published: 13, PublishedAt: time.Unix(1000, 0),
		},
		Publications: translog.Publications{Published: 14, Alone: 15, Held: 16, Alarms: 17, Clock: 18},
		Witnesses: []witness.State{{
			Name: "ann", Size: 100, CosignedAt: time.Unix(990, 0), Requests: 19, Seconds: 2.5, Last: 200 * time.Millisecond,
			Failures: map[witness.Reason]uint64{witness.Timeout: 20, witness.Fork: 21},
		}, {Name: "bob"}},
		Sessions: 22, Store: durable.Metrics{DiskBytes: 23, LogBytes: 24, MemTableBytes: 25, L0Files: 26, ReadAmp: 27, L0Sublevels: 34, WriteStalls: 35, Compacting: 36},
		Pulse: indexer.PulseFigures{
			Sessions: 37, Ends: map[string]uint64{"fenced": 38}, Refusals: map[string]uint64{"limit": 39}, Excluded: map[string]uint64{"oversize": 40},
			Batches: 41, Pages: 42, Payload: 43, Items: histogram(44), Octets: histogram(45), Purged: 46, Deletions: 47,
		},
		Disk:        durable.Disk{Free: 28, Ballast: 29, Released: 30, Stalls: 31},
		Certificate: identity.CertificateStatus{NotAfter: envelope.At(time.Unix(2000, 0)), Problem: "late"},
		Trust:       identity.TrustStatus{Identities: 32, Authorities: 33},
	}, nil
}

func TestAScrapeShowsTheFigures(t *testing.T) {
	lines := scrape(t, someFigures, time.Unix(1004, 500e6))
	for _, want := range []string{
		"uzpif_oi_log_queue_proposals 1", "uzpif_oi_log_queue_bound_proposals 2", "uzpif_oi_log_queue_bytes 3", "uzpif_oi_log_queue_bound_bytes 4",
		"uzpif_oi_log_overload_refusals_total 5", "uzpif_oi_log_commits_total 6", "uzpif_oi_log_proposals_total 7", "uzpif_oi_log_entries_total 8",
		"uzpif_oi_log_commit_seconds_count 9", "uzpif_oi_log_commit_seconds_sum 1.5", `uzpif_oi_log_commit_seconds_bucket{le="0.001"} 8`,
		`uzpif_oi_log_commit_seconds_bucket{le="+Inf"} 9`, "uzpif_oi_log_sync_seconds_count 10", "uzpif_oi_log_group_proposals_count 11",
		"uzpif_oi_log_released_entries 120", "uzpif_oi_log_published_entries 13", "uzpif_oi_log_published_age_seconds 4.5",
		"uzpif_oi_log_published_total 14", "uzpif_oi_log_published_alone_total 15", "uzpif_oi_log_held_total 16",
		"uzpif_oi_log_witness_alarms_total 17", "uzpif_oi_log_clock_refusals_total 18",
		`uzpif_oi_log_witness_entries{witness="ann"} 100`, `uzpif_oi_log_witness_lag_entries{witness="ann"} 20`,
		`uzpif_oi_log_witness_cosigned_timestamp_seconds{witness="ann"} 990`, `uzpif_oi_log_witness_cosigned_timestamp_seconds{witness="bob"} 0`,
		`uzpif_oi_log_witness_last_request_seconds{witness="ann"} 0.2`, `uzpif_oi_log_witness_request_seconds_sum{witness="ann"} 2.5`,
		`uzpif_oi_log_witness_request_seconds_count{witness="ann"} 19`, `uzpif_oi_log_witness_failures_total{reason="timeout",witness="ann"} 20`,
		`uzpif_oi_log_witness_failures_total{reason="fork",witness="ann"} 21`, `uzpif_oi_log_witness_failures_total{reason="busy",witness="bob"} 0`,
		"uzpif_oi_store_l0_sublevels 34", "uzpif_oi_store_write_stalls_total 35", "uzpif_oi_store_compactions 36",
		"uzpif_oi_sessions_total 37", `uzpif_oi_session_ends_total{reason="fenced"} 38`, `uzpif_oi_refusals_total{reason="limit"} 39`,
		`uzpif_oi_page_refusals_total{reason="oversize"} 40`, "uzpif_oi_batches_total 41", "uzpif_oi_pages_total 42", "uzpif_oi_payload_bytes_total 43",
		"uzpif_oi_batch_items_count 44", "uzpif_oi_batch_bytes_count 45", "uzpif_oi_purged_pages_total 46", "uzpif_oi_deletions_total 47",
		"uzpif_oi_sessions 22", "uzpif_oi_store_disk_bytes 23", "uzpif_oi_store_wal_bytes 24", "uzpif_oi_store_memtable_bytes 25",
		"uzpif_oi_store_l0_files 26", "uzpif_oi_store_read_amplification_tables 27", "uzpif_oi_store_free_bytes 28",
		"uzpif_oi_store_ballast_bytes 29", "uzpif_oi_store_ballast_released_total 30", "uzpif_oi_store_stalls_total 31",
		"uzpif_oi_certificate_not_after_timestamp_seconds 2000", "uzpif_oi_certificate_alarm 1",
		"uzpif_oi_trust_identities 32", "uzpif_oi_trust_authorities 33", "uzpif_oi_trust_alarm 0",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("there is no line %q", want)
		}
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "go_goroutines ") }) {
		t.Error("the runtime is not shown")
	}
}

func TestAFailedStoreShowsNoFigures(t *testing.T) {
	failed := func() (indexer.Figures, error) { return indexer.Figures{}, errors.New("failed") }
	for _, l := range scrape(t, failed, time.Unix(0, 0)) {
		if strings.HasPrefix(l, "uzpif_oi_") && !strings.HasPrefix(l, "uzpif_oi_configuration_") { // which is not read from it
			t.Errorf("shown: %s", l)
		}
	}
}

// TestEveryMetricIsDescribed compares the names, and their types, with the
// tables of doc/metrics.md.
func TestEveryMetricIsDescribed(t *testing.T) {
	doc, err := os.ReadFile("../doc/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(uzpif_oi_[a-z0-9_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(string(doc), -1) {
		if !strings.HasPrefix(row[1], "uzpif_oi_follow_") && !strings.HasPrefix(row[1], "uzpif_oi_publisher_") { // those are of the other programs
			described[row[1]] = row[2]
		}
	}
	for _, l := range scrape(t, someFigures, time.Unix(1000, 0)) {
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
