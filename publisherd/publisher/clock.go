package publisher

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// ErrClock is returned while the clock shows a time long before one that it has
// shown: grants that have ended would seem to be in force.
var ErrClock = errors.New("the clock is behind a time that it has shown before")

// highestFile holds the latest time that the clock has shown, in the folder.
const highestFile = "highest-time"

// highestStep is by how much the file may lag behind.
const highestStep = time.Minute

// A highest is the latest time that the clock was seen to show.
type highest struct {
	atMu sync.Mutex
	at   time.Time // zero until the file was read
}

// checkClock refuses to begin a session by a clock that was moved back further
// than two clocks may differ, and takes note of a later time, durably. A file
// that cannot be read refuses as well.
func (p *Publisher) checkClock() error {
	h := &p.highest
	h.atMu.Lock()
	defer h.atMu.Unlock()
	path, now := filepath.Join(p.dir, highestFile), p.now()
	if h.at.IsZero() {
		b, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		default:
			t, err := envelope.ParseTime(string(b))
			if err != nil {
				return fmt.Errorf("%s: %w; remove the file if the clock is right", path, err)
			}
			h.at = t.Time
		}
	}
	if now.Before(h.at.Add(-envelope.Skew)) {
		return fmt.Errorf("%w: it shows %s, and %s was seen; set the clock right, or, if it was ahead by mistake then, remove %s",
			ErrClock, envelope.At(now), envelope.At(h.at), path)
	}
	if now.Sub(h.at) < highestStep {
		return nil
	}
	at := envelope.At(now)
	if err := durable.WriteFile(path, []byte(at.String()), 0o644); err != nil {
		return err
	}
	h.at = at.Time
	return nil
}

// behind is ErrClock while the clock shows a time long before one that a session
// began at; it asks no disk.
func (h *highest) behind(now time.Time) error {
	h.atMu.Lock()
	defer h.atMu.Unlock()
	if h.at.IsZero() || !now.Before(h.at.Add(-envelope.Skew)) {
		return nil
	}
	return fmt.Errorf("%w: it shows %s, and %s was seen", ErrClock, envelope.At(now), envelope.At(h.at))
}
