package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/tracing"
)

// traceFlush is how long the spans that wait at the end have to go out.
const traceFlush = 2 * time.Second

// CheckTraces refuses settings of traces that are none.
func CheckTraces(endpoint string, ratio float64) error {
	if err := tracing.CheckEndpoint(endpoint); err != nil {
		return Errorf(Config, "trace_endpoint: %w", err)
	}
	if !(ratio >= 0 && ratio <= 1) {
		return Errorf(Config, "trace_ratio: %v, want 0 to 1", ratio)
	}
	return nil
}

// TraceSettings are the settings of traces.
func TraceSettings() Settings {
	return Settings{
		{Key: "trace_endpoint", Default: `""`, Values: "https://HOST:PORT, http://HOST:PORT without TLS, or empty for none",
			Doc: "The OpenTelemetry collector that is told how the work goes, over OTLP by gRPC (doc/monitoring.md)."},
		{Key: "trace_ratio", Default: "1", Values: "a number, 0 to 1",
			Doc: "The share of the traces that it is told."},
	}
}

// OpenTraces opens the tracer of a daemon; it is nil without an endpoint. done has to
// be called at the end.
func OpenTraces(ctx context.Context, program, endpoint string, ratio float64, log *slog.Logger) (t *tracing.Tracer, done func(), err error) {
	t, err = tracing.Open(ctx, tracing.Options{Endpoint: endpoint, Ratio: ratio, Program: program, Version: Version()})
	if err != nil {
		return nil, nil, With(Config, err)
	}
	return t, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), traceFlush)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			log.Warn("traces", "error", err)
		}
	}, nil
}
