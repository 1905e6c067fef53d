package link

import (
	"context"
	"errors"
	"io"
	"time"
)

// Start begins the writing side. It ends when ctx ends, when sending fails, when
// Finish has been called and everything queued is out, or when the link has failed
// or was closed and everything urgent is out.
func (l *Link[Out, In]) Start(ctx context.Context) {
	l.writingMu.Lock()
	l.beat = time.AfterFunc(l.opts.Heartbeat, l.beatNow)
	l.silence = time.AfterFunc(l.opts.Silence, func() { l.fail(ErrSilent) })
	l.leave = context.AfterFunc(ctx, func() { l.fail(context.Cause(ctx)) })
	l.writingMu.Unlock()
	l.kick() // what was queued before
}

// Written is closed when the writing side has ended.
func (l *Link[Out, In]) Written() <-chan struct{} { return l.written }

// Write is Start, and waits for the end: nil behind Finish, else why the link ended.
func (l *Link[Out, In]) Write(ctx context.Context) error {
	l.Start(ctx)
	<-l.written
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// heard puts off the end by silence.
func (l *Link[Out, In]) heard() {
	l.writingMu.Lock()
	defer l.writingMu.Unlock()
	if l.silence != nil && !l.ended {
		l.silence.Reset(l.opts.Silence)
	}
}

// beatNow is called by the timer. A heartbeat that finds the one before it unsent
// is none.
func (l *Link[Out, In]) beatNow() {
	l.writingMu.Lock()
	l.beats = true
	if !l.ended {
		l.beat.Reset(l.opts.Heartbeat)
	}
	l.writingMu.Unlock()
	l.kick()
}

// kick has a goroutine write, unless one does, or none will any more. Whatever gives
// it something to do calls it afterwards, so that nothing is left lying: the one that
// writes looks again under writingMu before it goes.
func (l *Link[Out, In]) kick() {
	l.writingMu.Lock()
	defer l.writingMu.Unlock()
	if l.beat == nil || l.writing || l.ended {
		return
	}
	l.writing = true
	l.opts.Go(l.write)
}

// write sends what there is, and goes.
func (l *Link[Out, In]) write() {
	for {
		f, ok := l.pick()
		if !ok && l.rest() {
			return
		}
		if !ok {
			continue
		}
		if err := l.send(f); err != nil {
			// The reason of a broken stream is what Recv returns.
			if !errors.Is(err, io.EOF) {
				l.fail(err)
			}
			<-l.done
			l.end()
			return
		}
	}
}

// pick takes the next frame, if there is one: urgent ones first, and no others once
// the link has failed or was closed.
func (l *Link[Out, In]) pick() (f Out, ok bool) {
	select {
	case f = <-l.urgent:
		return f, true
	default:
	}
	select {
	case <-l.done:
		return f, false
	default:
	}
	if l.beatDue() {
		return l.opts.Beat(), true
	}
	select {
	case f = <-l.out:
		return f, true
	default:
		return f, false
	}
}

func (l *Link[Out, In]) beatDue() bool {
	l.writingMu.Lock()
	defer l.writingMu.Unlock()
	due := l.beats
	l.beats = false
	return due
}

// rest reports whether the goroutine that writes may go: for now, when nothing waits,
// or for good.
func (l *Link[Out, In]) rest() bool {
	l.writingMu.Lock()
	defer l.writingMu.Unlock()
	select {
	case <-l.done:
		if len(l.urgent) > 0 {
			return false
		}
		l.endLocked()
		return true
	default:
	}
	if l.beats || len(l.urgent) > 0 || len(l.out) > 0 {
		return false
	}
	select {
	case <-l.over:
		l.endLocked()
	default:
		l.writing = false
	}
	return true
}

func (l *Link[Out, In]) end() {
	l.writingMu.Lock()
	defer l.writingMu.Unlock()
	l.endLocked()
}

// endLocked ends the writing side; writingMu is held.
func (l *Link[Out, In]) endLocked() {
	l.ended = true
	l.beat.Stop()
	l.silence.Stop()
	l.leave()
	close(l.written)
}

// send sends one frame. It takes as long as the peer takes to make room for it.
func (l *Link[Out, In]) send(f Out) error {
	l.sending.Store(time.Now().UnixNano())
	defer l.sending.Store(0)
	return l.stream.Send(f)
}

// Stuck is for how long the frame that is being sent has found no room; 0 if none
// is. A peer that reads nothing, and goes on sending, is never silent.
func (l *Link[Out, In]) Stuck() time.Duration {
	since := l.sending.Load()
	if since == 0 {
		return 0
	}
	return time.Since(time.Unix(0, since))
}
