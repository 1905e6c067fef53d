package durable

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
)

// A logger hands Pebble's messages to slog and its fatal ones to the guard.
type logger struct {
	to    *slog.Logger
	guard *guard
}

func (l logger) Infof(format string, args ...any) {
	l.to.Debug("pebble", "message", lazy{format, args})
}

func (l logger) Errorf(format string, args ...any) {
	l.to.Error("pebble", "message", lazy{format, args})
}

// Fatalf does not return: Pebble calls it where it cannot go on.
func (l logger) Fatalf(format string, args ...any) {
	err := fatalError{msg: fmt.Sprintf(format, args...)}
	for _, a := range args {
		if cause, ok := a.(error); ok {
			err.cause = cause
		}
	}
	l.to.Error("pebble cannot go on", "error", err)
	l.guard.fatal(err)
}

// A fatalError is what Fatalf was told; cause is the error among it, if any.
type fatalError struct {
	msg   string
	cause error
}

func (e fatalError) Error() string { return e.msg }
func (e fatalError) Unwrap() error { return e.cause }

// lazy is formatted only if somebody reads it.
type lazy struct {
	format string
	args   []any
}

func (m lazy) LogValue() slog.Value { return slog.StringValue(fmt.Sprintf(m.format, m.args...)) }

// listener reports what an operator should know. Reads of damaged blocks
// return an error of their own; they poison the store as well, because a
// neighbouring row may be the one that a decision rests on.
func listener(to *slog.Logger, g *guard) *pebble.EventListener {
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			to.Error("flush or compaction", "error", err)
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			to.Error("stored data is damaged", "path", info.Path, "error", info.Details)
			g.fail(fmt.Errorf("%s is damaged: %w", info.Path, info.Details))
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			g.writeStalls.Add(1)
			to.Warn("writes are stalled", "reason", info.Reason)
		},
		WriteStallEnd: func() { to.Info("writes go on") },
	}
}
