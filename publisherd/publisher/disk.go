package publisher

import "errors"

// Ready is nil while the publisher scans and pushes, or says why it does not:
// little is free on its disk, or the disk does not answer, which is then not
// asked. Receipts are taken down to the last octet.
func (p *Publisher) Ready() error {
	d := p.store.Disk()
	if err := errors.Join(d.Stalled, d.Full); err != nil {
		return err
	}
	_, err := p.Status()
	return err
}
