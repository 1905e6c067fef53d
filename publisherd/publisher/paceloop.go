package publisher

import "time"

// due is a timer that fires when the first of the series that are held may go on,
// or the first lingering round has waited long enough, and never if there is
// neither. It has to be stopped.
func (l *indexerLoop) due() *time.Timer {
	next, any := l.patience()
	for _, h := range l.held {
		if left := time.Until(h.until); !any || left < next {
			next, any = left, true
		}
	}
	timer := time.NewTimer(max(next, 0))
	if !any {
		timer.Stop()
	}
	return timer
}
