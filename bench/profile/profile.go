// Package profile takes profiles of a measurement.
package profile

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// Start begins profiles, and returns what ends and writes them to dir;
// "" makes none.
func Start(dir string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	runtime.SetMutexProfileFraction(20)
	runtime.SetBlockProfileRate(100_000) // one sample for 100 µs of waiting
	cpu, err := os.Create(filepath.Join(dir, "cpu"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		err := cpu.Close()
		for _, name := range []string{"allocs", "mutex", "block"} {
			f, e := os.Create(filepath.Join(dir, name))
			if e == nil {
				e = errors.Join(pprof.Lookup(name).WriteTo(f, 0), f.Close())
			}
			err = errors.Join(err, e)
		}
		return err
	}, nil
}
