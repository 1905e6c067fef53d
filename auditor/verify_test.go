package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

func TestALogThatWithholdsIsNotUnreachable(t *testing.T) {
	s := stage.New(t, 1)
	b := s.Offer(t, stage.Pages()...)
	a := s.Answer(t, b, 5, stage.Lie{})
	raw, err := evaluate.Seal(s.Evidence(t, b, a, 0, s.Size()))
	if err != nil {
		t.Fatal(err)
	}
	o := evaluate.Options{Cards: []*identity.Card{s.Indexer.Card}, Now: time.Now()}
	server := httptest.NewServer(serveLog(t, s, s.Log[:11], sizes(11)))
	t.Cleanup(server.Close)
	report, unreachable := askLog(t.Context(), server.URL, raw, o, evaluate.Verify(t.Context(), raw, o))
	if report.Verdict != evaluate.Included || unreachable != nil || !strings.Contains(report.Reasons[0], "does not publish a tree of 15 entries") {
		t.Errorf("%s, unreachable %v, reasons %q", report.Verdict, unreachable, report.Reasons)
	}
}

func TestNothingThatMovesTheCursorIsPrinted(t *testing.T) {
	for in, want := range map[string]string{
		"plain, äöü “quoted”\nnext": "plain, äöü “quoted”\nnext",
		"a\x1b[2Jb":                 "a\uFFFD[2Jb",
		"a\u202eb\u2066c\rd":        "a\uFFFDb\uFFFDc\uFFFDd",
	} {
		if got := safe(in); got != want {
			t.Errorf("safe(%q) = %q, want %q", in, got, want)
		}
	}
}
