package cli

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

// A Manager tells the service manager, systemd, how the daemon does (sd_notify).
// Without one, where NOTIFY_SOCKET is not set, it tells nobody. A nil Manager
// is ready too.
type Manager struct {
	Log *slog.Logger
	// Turns takes what the daemon's work takes, a lock above all, and returns. While
	// it does not, the watchdog is not fed. What it finds besides is for /readyz.
	Turns func()
}

// Ready tells that the daemon works, for the first time or again.
func (m *Manager) Ready() { m.tell(daemon.SdNotifyReady) }

// Reloading tells that the configuration is being read anew; Ready ends it.
func (m *Manager) Reloading() {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return
	}
	m.tell(fmt.Sprintf("%s\nMONOTONIC_USEC=%d", daemon.SdNotifyReloading, now.Nano()/1000))
}

func (m *Manager) tell(state string) {
	if m == nil {
		return
	}
	if _, err := daemon.SdNotify(false, state); err != nil {
		m.Log.Warn("service manager not told", "state", state, "error", err)
	}
}

// Run feeds the watchdog, three times in the time that it allows, until ctx ends,
// and then tells that the daemon stops.
func (m *Manager) Run(ctx context.Context) error {
	defer m.tell(daemon.SdNotifyStopping)
	allowed, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return Errorf(Config, "watchdog: %w", err)
	}
	if allowed == 0 {
		<-ctx.Done()
		return nil
	}
	tick := time.NewTicker(allowed / 3)
	defer tick.Stop()
	for {
		m.Turns()
		m.tell(daemon.SdNotifyWatchdog)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
