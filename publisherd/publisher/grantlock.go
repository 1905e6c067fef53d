package publisher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// lockWait is how long a command waits for another one, or the daemon, to end
// what it does with the grants. It takes milliseconds.
const lockWait = 10 * time.Second

// lockGrants holds off whoever else would sign in one of the series, until
// unlock: two grants of one series and one sequence would contradict each other
// for good. The lock ends with its process.
func lockGrants(dir string) (unlock func() error, err error) {
	folder := filepath.Join(dir, "grants")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Open(folder)
	if err != nil {
		return nil, err
	}
	for waited := time.Duration(0); ; waited += 10 * time.Millisecond {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return f.Close, nil
		case !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) || waited >= lockWait:
			return nil, errors.Join(fmt.Errorf("grants of %s are locked by another process; try again: %w", dir, err), f.Close())
		}
		time.Sleep(10 * time.Millisecond)
	}
}
