//go:build !linux

package exported

import "os"

// exchange lets two folders change places. Between the steps there is no b: this
// system has no single one for it.
func exchange(a, b string) error {
	aside := b + ".old"
	if err := os.Rename(b, aside); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return err
	}
	return os.Rename(aside, a)
}
