// Package tracing tells an OpenTelemetry collector how the work goes, over OTLP by
// gRPC. It is off until an endpoint is named.
//
// A span names what is done, how much of it, and how it ended: no content, no URL
// of a page, no secret (TestTracesHoldTheSessionAndNoContent looks for them). What
// the collector does not take is dropped: at most queueSpans wait, and nothing else
// waits for them. A peer says which trace its session is of, and not whether that is
// recorded: the ratio does, by the trace's number.
package tracing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	oteltrace "go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/stats"
)

// Bounds of what waits for the collector.
const (
	queueSpans  = 2048
	batchSpans  = 512
	batchEvery  = 2 * time.Second
	exportTime  = 10 * time.Second // for one batch; what it does not take then is dropped
	scopeName   = "github.com/uzpif-oi/uzpif-oi"
	maxAttrText = 256 // octets
)

// Options say where spans go.
type Options struct {
	// Endpoint is https://HOST:PORT, or http://HOST:PORT for a collector that is
	// reached without TLS; empty for none.
	Endpoint string
	// Ratio is the share of the traces that are recorded, 0 to 1.
	Ratio            float64
	Program, Version string
}

// CheckEndpoint refuses what is no endpoint.
func CheckEndpoint(endpoint string) error {
	if endpoint == "" {
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Port() == "" || u.Hostname() == "" || u.User != nil || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
		return fmt.Errorf("%.80q is not https://HOST:PORT or http://HOST:PORT", endpoint)
	}
	return nil
}

// A Tracer makes spans. A nil Tracer makes none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   oteltrace.Tracer
}

// Open makes a tracer; nil if there is no endpoint. It does not wait for the
// collector.
func Open(ctx context.Context, o Options) (*Tracer, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	if err := CheckEndpoint(o.Endpoint); err != nil {
		return nil, err
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil {
		return nil, err
	}
	secure := otlptracegrpc.WithInsecure()
	if u.Scheme == "https" {
		secure = otlptracegrpc.WithTLSCredentials(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}))
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(u.Host), secure, otlptracegrpc.WithTimeout(exportTime),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: false}))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	p := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(queueSpans), sdktrace.WithMaxExportBatchSize(batchSpans), sdktrace.WithBatchTimeout(batchEvery), sdktrace.WithExportTimeout(exportTime)),
		sdktrace.WithSampler(sdktrace.TraceIDRatioBased(o.Ratio)),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", o.Program), attribute.String("service.version", o.Version))),
		sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
			AttributeValueLengthLimit: maxAttrText, AttributeCountLimit: 32, EventCountLimit: 16, LinkCountLimit: 4,
			AttributePerEventCountLimit: 8, AttributePerLinkCountLimit: 8,
		}),
	)
	return &Tracer{provider: p, tracer: p.Tracer(scopeName)}, nil
}

// Close sends what waits, for as long as ctx allows.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.provider.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("traces: %w", err)
	}
	return nil
}

// Server and Client follow gRPC calls: a call carries the trace that it is part of.
// Both are nil of a nil Tracer.
func (t *Tracer) Server() stats.Handler {
	if t == nil {
		return nil
	}
	return otelgrpc.NewServerHandler(t.options()...)
}

// Client is the other side's Server.
func (t *Tracer) Client() stats.Handler {
	if t == nil {
		return nil
	}
	return otelgrpc.NewClientHandler(t.options()...)
}

func (t *Tracer) options() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithTracerProvider(t.provider), otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()), otelgrpc.WithPropagators(propagation.TraceContext{}),
	}
}

// A Span is one piece of work. The zero Span is one that nobody is told of.
type Span struct{ span oteltrace.Span }

// Start begins a span below the one of ctx. Labels are pairs of a name and a value.
func (t *Tracer) Start(ctx context.Context, name string, labels ...string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	attributes := make([]attribute.KeyValue, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		attributes = append(attributes, attribute.String("uzpif."+labels[i], labels[i+1]))
	}
	ctx, span := t.tracer.Start(ctx, name, oteltrace.WithAttributes(attributes...))
	return ctx, Span{span}
}

// Count says how much of something there was.
func (s Span) Count(name string, n int) {
	if s.span != nil {
		s.span.SetAttributes(attribute.Int("uzpif."+name, n))
	}
}

// End ends the span. Outcome is one word; empty means that it went well. The text
// of an error has no place here: it may quote what the other side sent.
func (s Span) End(outcome string) {
	if s.span == nil {
		return
	}
	if outcome != "" {
		s.span.SetStatus(codes.Error, outcome)
	}
	s.span.End()
}
