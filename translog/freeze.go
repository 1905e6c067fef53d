package translog

// Freeze ends the signing of the log, and lets it be read. When it returns,
// whatever was being committed is done, and nothing is signed from then on:
// proposals are refused with ErrReadOnly, and Close publishes nothing. It is for
// whoever has found that the log must not go on; that it is to stay so is theirs
// to write down.
func (l *Log) Freeze() {
	if l.cfg.ReadOnly {
		return
	}
	answer := make(chan struct{})
	select {
	case l.freeze <- answer:
		<-answer
	case <-l.done: // failed, or closed
	}
}

// frozen is what is left of run after Freeze. What was on its way has settled,
// and what witnesses were looking at is never shown.
func (l *Log) frozen() {
	for {
		select {
		case <-l.stop:
			return
		case r := <-l.urgent:
			l.received(r).answer(ErrReadOnly)
		case r := <-l.queue:
			l.received(r).answer(ErrReadOnly)
		case answer := <-l.publish:
			answer <- ErrReadOnly
		case answer := <-l.freeze:
			close(answer)
		}
	}
}
