// Package link runs one bidirectional stream the way that gRPC allows: one
// goroutine writes, one reads, each queue has a bound, heartbeats go both ways,
// and a peer that is silent for too long is given up. There is a goroutine that
// writes only while there is something to write, since nearly all of thousands of
// sessions are idle (TestAnIdleLinkHasNoWriter).
//
// What passes before other frames (receipts, revocations, faults) is sent with
// Urgent; it never waits behind what Send has queued
// (TestUrgentFramesOvertakeQueuedOnes). A silent peer is found
// (TestSilenceEndsTheLink).
package link

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrSilent ends a link whose peer sent nothing for Options.Silence.
var ErrSilent = errors.New("the peer has fallen silent")

// A Stream is the part of a gRPC stream that a Link uses.
type Stream[Out, In any] interface {
	Send(Out) error
	Recv() (In, error)
}

// Options sets a link's times. Beat makes a heartbeat; IsBeat recognises the
// peer's, which the link keeps to itself.
type Options[Out, In any] struct {
	Beat   func() Out
	IsBeat func(In) bool
	// Admit, when set, judges each frame before it is queued. Its error ends the
	// reading, and is what Recv returns behind the frames that came before it; the
	// link itself stays, to tell the peer.
	Admit func(In) error
	// Divert, when set, may take a frame out, behind Admit and in the reading
	// goroutine, so that it waits for nothing that was queued before it. Its error
	// is as that of Admit.
	Divert func(In) (taken bool, err error)
	// Go, when set, runs the goroutine that writes, for an owner who waits for it.
	Go func(func())
	// Queue is how many frames may wait for Recv. 0 means 8.
	Queue int
	// Heartbeat is the interval of heartbeats sent.
	Heartbeat time.Duration
	// Silence is how long the peer may send nothing at all.
	Silence time.Duration
}

// The bounds of a link's queues, in frames. A frame is at most about 1 MiB.
const (
	queueOut    = 4
	queueUrgent = 64
	queueIn     = 8 // unless Options.Queue says otherwise
)

// A Link is one running stream.
type Link[Out, In any] struct {
	stream Stream[Out, In]
	opts   Options[Out, In]
	out    chan Out
	urgent chan Out
	in     chan In
	refuse error // of Admit or Divert; set before in is closed

	over     chan struct{} // closed by Finish
	overOnce sync.Once

	// writingMu guards the rest of the writing side: whether a goroutine writes,
	// whether none will any more, and whether a heartbeat is due.
	writingMu             sync.Mutex
	writing, ended, beats bool
	beat, silence         *time.Timer   // nil before Start
	leave                 func() bool   // forgets the context of Start
	written               chan struct{} // closed when the last frame is out

	sending atomic.Int64 // when the frame was begun that is being sent, in Unix nanoseconds; 0: none is

	done chan struct{}
	once sync.Once
	err  error // set before done is closed
}

// New makes a link; Start, or Write, and Read must be called to turn it.
func New[Out, In any](s Stream[Out, In], o Options[Out, In]) *Link[Out, In] {
	if o.Go == nil {
		o.Go = func(f func()) { go f() }
	}
	return &Link[Out, In]{
		stream: s, opts: o,
		out: make(chan Out, queueOut), urgent: make(chan Out, queueUrgent), in: make(chan In, cmp.Or(o.Queue, queueIn)),
		over: make(chan struct{}), written: make(chan struct{}), done: make(chan struct{}),
	}
}

// fail ends the link with err, once.
func (l *Link[Out, In]) fail(err error) {
	l.once.Do(func() {
		l.err = err
		close(l.done)
	})
	l.kick()
}

// Read is the reading goroutine: it returns when Recv fails, which for gRPC
// happens at the latest when the stream's context ends.
func (l *Link[Out, In]) Read() {
	defer close(l.in)
	for {
		f, err := l.stream.Recv()
		if err != nil {
			l.fail(err)
			return
		}
		l.heard()
		if l.opts.IsBeat(f) {
			continue
		}
		taken := false
		if taken, l.refuse = l.judge(f); l.refuse != nil {
			return
		}
		if taken {
			continue
		}
		select {
		case l.in <- f:
		case <-l.done:
			return
		}
	}
}

// judge asks Admit and Divert.
func (l *Link[Out, In]) judge(f In) (taken bool, err error) {
	if l.opts.Admit != nil {
		if err := l.opts.Admit(f); err != nil {
			return false, err
		}
	}
	if l.opts.Divert == nil {
		return false, nil
	}
	return l.opts.Divert(f)
}

// Finish says that this side has sent all that it will: what is queued is sent, and
// Write returns, so that its caller can half-close the stream. The link is
// done when the peer ends the stream in its turn, with io.EOF, or when it is
// closed. Nothing may be sent once Finish is called.
func (l *Link[Out, In]) Finish() {
	l.overOnce.Do(func() { close(l.over) })
	l.kick()
}

// ErrClosed is the error of a link that its own side closed.
var ErrClosed = errors.New("link closed")

// Close ends the link from this side.
func (l *Link[Out, In]) Close() { l.fail(ErrClosed) }

// Send queues f behind the frames sent before it, and blocks while the queue
// is full.
func (l *Link[Out, In]) Send(ctx context.Context, f Out) error { return l.put(ctx, l.out, f) }

// Urgent queues f before everything that Send has queued.
func (l *Link[Out, In]) Urgent(ctx context.Context, f Out) error { return l.put(ctx, l.urgent, f) }

func (l *Link[Out, In]) put(ctx context.Context, q chan Out, f Out) error {
	select {
	case <-l.done:
		return l.err
	default:
	}
	select {
	case q <- f:
		l.kick()
		return nil
	case <-l.done:
		return l.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Recv returns the next frame that is no heartbeat. Frames that came before
// the link failed are still returned. It does not wait for the reading to end,
// which that of a peer that has fallen silent never may.
func (l *Link[Out, In]) Recv(ctx context.Context) (In, error) {
	var none In
	select {
	case f, ok := <-l.in:
		return l.received(f, ok)
	case <-l.done:
		select {
		case f, ok := <-l.in:
			return l.received(f, ok)
		default:
			return none, l.err
		}
	case <-ctx.Done():
		return none, context.Cause(ctx)
	}
}

// received is what Recv says of what it took out of the queue, which Read closes
// at its end.
func (l *Link[Out, In]) received(f In, ok bool) (In, error) {
	if !ok && l.refuse != nil {
		return f, l.refuse
	}
	if !ok {
		<-l.done
		return f, l.err
	}
	return f, nil
}

// Done is closed when the link has failed or was closed.
func (l *Link[Out, In]) Done() <-chan struct{} { return l.done }

// Err is why the link ended; it is valid once Done is closed.
func (l *Link[Out, In]) Err() error { return l.err }
