package publisher

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// whenFired runs debounce over notes at the given times, and returns when it
// fired.
func whenFired(t *testing.T, notes []time.Duration) (fired []time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in, out := make(chan struct{}, 1), make(chan struct{}, 1)
		go debounce(ctx, in, out, quietTime, gatherTime)
		start := time.Now()
		go func() {
			for _, at := range notes {
				time.Sleep(time.Until(start.Add(at)))
				nudge(in)
			}
		}()
		go func() {
			for {
				select {
				case <-out:
					fired = append(fired, time.Since(start))
				case <-ctx.Done():
					return
				}
			}
		}()
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
	})
	return fired
}

func TestChangesAreGatheredUntilTheyRest(t *testing.T) {
	var steady []time.Duration // a change every 200 ms for 7 seconds
	for at := time.Duration(0); at <= 7*time.Second; at += 200 * time.Millisecond {
		steady = append(steady, at)
	}
	for _, tt := range []struct {
		name  string
		notes []time.Duration
		want  []time.Duration
	}{
		{"nothing changes", nil, nil},
		{"one change", []time.Duration{time.Second}, []time.Duration{1500 * time.Millisecond}},
		{"a few close together", []time.Duration{0, 400 * time.Millisecond, 800 * time.Millisecond}, []time.Duration{1300 * time.Millisecond}},
		{"two apart", []time.Duration{0, 2 * time.Second}, []time.Duration{500 * time.Millisecond, 2500 * time.Millisecond}},
		{"changes without an end do not wait for it", steady, []time.Duration{5 * time.Second, 7500 * time.Millisecond}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := whenFired(t, tt.notes)
			if len(got) != len(tt.want) {
				t.Fatalf("fired at %v, want %v", got, tt.want)
			}
			for i := range got {
				// The last note of a burst may fall on the very instant.
				if d := got[i] - tt.want[i]; d < -quietTime || d > quietTime {
					t.Errorf("fired at %v, want %v", got, tt.want)
				}
			}
		})
	}
}

// expectNote waits for a note.
func expectNote(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s went unnoticed", what)
	}
}

func TestNewFoldersAreWatchedToo(t *testing.T) {
	dir := t.TempDir()
	w := newWatch(slog.New(slog.DiscardHandler))
	w.tree(dir)
	out := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(ctx, true, out)
	}()
	defer func() { cancel(); <-ended; w.close() }()

	deep := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	expectNote(t, "a new folder", out)
	if err := os.WriteFile(filepath.Join(deep, "page.html"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	expectNote(t, "a file in it", out)
	if err := os.Remove(filepath.Join(deep, "page.html")); err != nil {
		t.Fatal(err)
	}
	expectNote(t, "its deletion", out)

	// What the sources pass over is passed over here.
	if err := os.WriteFile(filepath.Join(deep, ".page.swp"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	select {
	case <-out:
		t.Error("a hidden file was noticed")
	case <-time.After(2 * quietTime):
	}
}

func TestAWatchThatTheSystemRefusesIsNoError(t *testing.T) {
	w := &watch{log: slog.New(slog.DiscardHandler), raw: make(chan struct{}, 1)}
	w.tree(t.TempDir())
	w.folder("nowhere")
	w.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.run(ctx, true, make(chan struct{}, 1))
}
