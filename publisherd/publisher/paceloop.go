package publisher

import "time"

// due is a timer that fires when the first of the series that are held may go on,
// and never if none is held. It has to be stopped.
func (l *indexerLoop) due() *time.Timer {
	next, any := time.Duration(0), false
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
