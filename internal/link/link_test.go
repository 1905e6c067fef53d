package link

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wire is a Stream over channels.
type wire struct {
	sent chan string
	recv chan string
}

func (w *wire) Send(s string) error { w.sent <- s; return nil }

func (w *wire) Recv() (string, error) {
	s, ok := <-w.recv
	if !ok {
		return "", io.EOF
	}
	return s, nil
}

func start(ctx context.Context, w *wire) (*Link[string, string], func() error) {
	l := New(w, Options[string, string]{
		Beat:      func() string { return "beat" },
		IsBeat:    func(s string) bool { return s == "beat" },
		Heartbeat: 20 * time.Second,
		Silence:   45 * time.Second,
	})
	ended := make(chan error, 1)
	go l.Read()
	go func() { ended <- l.Write(ctx) }()
	return l, func() error { return <-ended }
}

func TestUrgentFramesOvertakeQueuedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{sent: make(chan string), recv: make(chan string)}
		l, wait := start(t.Context(), w)
		for _, s := range []string{"a", "b", "c"} {
			if err := l.Send(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // the writer holds "a"
		if err := l.Urgent(t.Context(), "now"); err != nil {
			t.Fatal(err)
		}
		var got []string
		for range 4 {
			got = append(got, <-w.sent)
		}
		if got[0] != "a" || got[1] != "now" {
			t.Errorf("sent %q", got)
		}
		close(w.recv)
		if err := wait(); err != io.EOF {
			t.Errorf("Write = %v", err)
		}
	})
}

func TestSilenceEndsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{sent: make(chan string, 100), recv: make(chan string)}
		l, wait := start(t.Context(), w)
		begin := time.Now()
		w.recv <- "beat"
		time.Sleep(30 * time.Second)
		w.recv <- "beat"
		if _, err := l.Recv(t.Context()); !errors.Is(err, ErrSilent) {
			t.Errorf("Recv = %v", err)
		}
		if err := wait(); !errors.Is(err, ErrSilent) {
			t.Errorf("Write = %v", err)
		}
		if d := time.Since(begin); d != 75*time.Second {
			t.Errorf("found after %v", d)
		}
		if len(w.sent) != 3 {
			t.Errorf("%d heartbeats sent in 75 s", len(w.sent))
		}
		if err := l.Send(t.Context(), "x"); !errors.Is(err, ErrSilent) {
			t.Errorf("Send afterwards = %v", err)
		}
		close(w.recv)
	})
}

func TestFramesBeforeTheEndAreStillReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{sent: make(chan string, 100), recv: make(chan string, 2)}
		l, wait := start(t.Context(), w)
		w.recv <- "last words"
		close(w.recv)
		synctest.Wait()
		if f, err := l.Recv(t.Context()); f != "last words" || err != nil {
			t.Errorf("Recv = %q, %v", f, err)
		}
		if _, err := l.Recv(t.Context()); err != io.EOF {
			t.Errorf("Recv at the end = %v", err)
		}
		wait()
	})
}

func TestCancellationEndsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := &wire{sent: make(chan string, 100), recv: make(chan string)}
		l, wait := start(ctx, w)
		cancel()
		if err := wait(); !errors.Is(err, context.Canceled) {
			t.Errorf("Write = %v", err)
		}
		<-l.Done()
		close(w.recv)
	})
}

func TestWhatWasQueuedBeforeTheFinishIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{sent: make(chan string), recv: make(chan string)}
		l, wait := start(t.Context(), w)
		for _, s := range []string{"a", "b", "c"} {
			if err := l.Send(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		l.Finish()
		var got string
		for range 3 {
			got += <-w.sent
		}
		if err := wait(); err != nil || got != "abc" {
			t.Errorf("sent %q, Write = %v", got, err)
		}
		close(w.recv) // the peer ends in its turn
		if _, err := l.Recv(t.Context()); err != io.EOF {
			t.Errorf("Recv = %v", err)
		}
		<-l.Done()
	})
}

// TestADivertedFrameWaitsForNothing that was queued before it; what is left is in order,
// and the queue is as long as was asked for.
func TestADivertedFrameWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{sent: make(chan string, 100), recv: make(chan string, 8)}
		var taken []string
		failure := errors.New("not that")
		l := New(w, Options[string, string]{
			Beat: func() string { return "beat" }, IsBeat: func(s string) bool { return s == "beat" },
			Divert: func(s string) (bool, error) {
				switch s {
				case "urgent":
					taken = append(taken, s)
					return true, nil
				case "bad":
					return true, failure
				}
				return false, nil
			},
			Heartbeat: time.Hour, Silence: time.Hour, Queue: 3,
		})
		for _, s := range []string{"a", "b", "urgent", "c", "d", "urgent", "bad", "e"} {
			w.recv <- s
		}
		go l.Read()
		synctest.Wait() // reading waits for room for "d"
		if len(taken) != 1 || len(w.recv) != 3 {
			t.Errorf("%q were taken out, %d frames were not read", taken, len(w.recv))
		}
		for _, want := range []string{"a", "b", "c", "d"} {
			if got, err := l.Recv(t.Context()); got != want || err != nil {
				t.Errorf("Recv = %q, %v, want %q", got, err, want)
			}
		}
		if got, err := l.Recv(t.Context()); !errors.Is(err, failure) {
			t.Errorf("Recv behind what was refused = %q, %v", got, err)
		}
		if len(taken) != 2 {
			t.Errorf("%q were taken out", taken)
		}
		l.Close()
	})
}

// TestAnIdleLinkHasNoWriter: after what was queued is out, and between heartbeats, no
// goroutine writes; one does again as soon as there is something.
func TestAnIdleLinkHasNoWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{sent: make(chan string, 100), recv: make(chan string)}
		running := 0
		var runningMu sync.Mutex
		count := func(n int) int {
			runningMu.Lock()
			defer runningMu.Unlock()
			running += n
			return running
		}
		l := New(w, Options[string, string]{
			Beat: func() string { return "beat" }, IsBeat: func(s string) bool { return s == "beat" },
			Heartbeat: 20 * time.Second, Silence: 10 * time.Minute,
			Go: func(f func()) {
				count(1)
				go func() { defer count(-1); f() }()
			},
		})
		if err := l.Send(t.Context(), "before the start"); err != nil {
			t.Fatal(err)
		}
		l.Start(t.Context())
		for i := range 3 {
			synctest.Wait()
			if n := count(0); n != 0 {
				t.Errorf("%d goroutines write when nothing is to be written", n)
			}
			if len(w.sent) != 2*i+1 {
				t.Errorf("%d frames were sent, want %d", len(w.sent), 2*i+1)
			}
			time.Sleep(20 * time.Second) // a heartbeat
			synctest.Wait()
			if err := l.Urgent(t.Context(), "more"); err != nil {
				t.Fatal(err)
			}
		}
		l.Close()
		<-l.Written()
		synctest.Wait()
		if n := count(0); n != 0 {
			t.Errorf("%d goroutines write behind the end", n)
		}
		close(w.recv)
	})
}

// TestWhatIsUrgentIsSentBehindTheClose if it was queued before it, and nothing else.
func TestWhatIsUrgentIsSentBehindTheClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &wire{sent: make(chan string), recv: make(chan string)}
		l, wait := start(t.Context(), w)
		for _, send := range []func(context.Context, string) error{l.Send, l.Send, l.Urgent} {
			if err := send(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the writer holds the first
		}
		l.Close()
		<-w.sent
		<-w.sent
		if err := wait(); !errors.Is(err, ErrClosed) {
			t.Errorf("Write = %v", err)
		}
		if len(l.out) != 1 {
			t.Errorf("%d frames were left, want the second", len(l.out))
		}
		close(w.recv)
	})
}
