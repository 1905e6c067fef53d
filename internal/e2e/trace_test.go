package e2e

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
	"github.com/uzpif-oi/uzpif-oi/internal/tracing"
)

// A receiver is an OTLP collector that keeps the spans it is told.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	spansMu sync.Mutex
	spans   []*tracev1.Span
}

func (r *receiver) Export(_ context.Context, q *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.spansMu.Lock()
	defer r.spansMu.Unlock()
	for _, resource := range q.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// collect serves a receiver until the test ends.
func collect(t *testing.T) (*receiver, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	pair.Check(t, err)
	r, server := new(receiver), grpc.NewServer()
	collector.RegisterTraceServiceServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-served })
	return r, "http://" + l.Addr().String()
}

// TestTracesHoldTheSessionAndNoContent pushes a site under tracing, and reads what a
// collector is told: one trace from the publisher's session to the indexer's commit,
// and nothing of what the pages say or are called.
func TestTracesHoldTheSessionAndNoContent(t *testing.T) {
	t.Parallel()
	r, endpoint := collect(t)
	tracer, err := tracing.Open(t.Context(), tracing.Options{Endpoint: endpoint, Ratio: 1, Program: "both", Version: "test"})
	pair.Check(t, err)
	p := pair.Bare(t)
	p.StopIndexer()
	p.Trace = tracer
	p.StartIndexer()
	for i := range 3 {
		p.Write(i, "a word that nobody may see")
	}
	p.Grant("/")
	if got := p.Push(); got.Sent != 3 {
		t.Fatalf("%+v", got)
	}
	p.StopIndexer() // ends the spans of its session
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	pair.Check(t, tracer.Close(ctx))

	r.spansMu.Lock()
	defer r.spansMu.Unlock()
	byID, count := make(map[string]*tracev1.Span), make(map[string]int)
	for _, s := range r.spans {
		byID[string(s.SpanId)] = s
		count[s.Name]++
		text := prototext.Format(s)
		for _, never := range []string{"nobody may see", "p1.html", pair.Origin, "PRIVATE"} {
			if strings.Contains(text, never) {
				t.Errorf("a span says %q: %s", never, text)
			}
		}
	}
	for name, want := range map[string]int{"scan": 1, "session": 1, "commit": 1, "batch": 2, "evaluate": 2} {
		if count[name] != want {
			t.Errorf("%d spans %q, want %d; there are %v", count[name], name, want, count)
		}
	}
	// From the commit up to the session: the indexer's work is of the publisher's trace.
	for _, s := range r.spans {
		if s.Name != "commit" {
			continue
		}
		var way []string
		for at := s; at != nil; at = byID[string(at.ParentSpanId)] {
			way = append(way, at.Name)
			if string(at.TraceId) != string(s.TraceId) {
				t.Errorf("%s is of another trace", at.Name)
			}
		}
		if len(way) != 5 || way[1] != "batch" || way[4] != "session" {
			t.Errorf("above a commit: %q", way)
		}
	}
}

func TestNoEndpointMeansNoTraces(t *testing.T) {
	t.Parallel()
	tracer, err := tracing.Open(t.Context(), tracing.Options{Ratio: 1})
	if err != nil || tracer != nil || tracer.Server() != nil || tracer.Client() != nil {
		t.Fatalf("%v, %v", tracer, err)
	}
	ctx, span := tracer.Start(t.Context(), "batch")
	span.Count("items", 1)
	span.End("refused")
	if ctx != t.Context() || tracer.Close(ctx) != nil {
		t.Error("a tracer that is off does something")
	}
	for endpoint, ok := range map[string]bool{
		"": true, "https://h.test:4317": true, "http://127.0.0.1:4317/": true,
		"h.test:4317": false, "https://h.test": false, "ftp://h.test:1": false, "https://u:p@h.test:1": false, "https://h.test:1/v1": false,
	} {
		if err := tracing.CheckEndpoint(endpoint); (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
}
