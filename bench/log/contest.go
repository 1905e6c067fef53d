package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/uzpif-oi/uzpif-oi/bench/load"
	"github.com/uzpif-oi/uzpif-oi/bench/peer"
	"github.com/uzpif-oi/uzpif-oi/bench/profile"
	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
)

// leaf is the size of an opaque entry, and root that of what makes a signed one differ
// from others, in octets.
const leaf, root = 1024, 32

// warm is the time before anything is counted.
const warm = time.Second

// A bout is one measurement: something is opened in an empty folder, measured,
// and closed.
type bout struct {
	name string
	what string
	run  func(ctx context.Context, dir string, d time.Duration) (load.Sample, error)
}

// The settings of Tessera are those with which it was fastest: a batch that is
// full as soon as all adders wait, up to 1,024.
var (
	tessera256  = peer.TesseraSettings{Batch: 256, Age: 10 * time.Millisecond, Checkpoint: time.Second, Poll: 10 * time.Millisecond}
	tessera4096 = peer.TesseraSettings{Batch: 1024, Age: 10 * time.Millisecond, Checkpoint: time.Second, Poll: 10 * time.Millisecond}
	tessera1    = peer.TesseraSettings{Batch: 1, Age: time.Millisecond, Checkpoint: 100 * time.Millisecond, Poll: time.Millisecond}
)

// bouts are the measurements of a round, in this order.
func bouts() []bout {
	return []bout{
		ours("ours/256", "our log, 256 adders", 256, leaf, (*peer.Ours).Add),
		tessera("tessera/256", "Tessera, 256 adders", 256, tessera256, (*peer.Tessera).Add),
		{"pebble", "Pebble alone, batches of 256", bare(256)},
		ours("ours/4096", "our log, 4,096 adders", 4096, leaf, (*peer.Ours).Add),
		tessera("tessera/4096", "Tessera, 4,096 adders", 4096, tessera4096, (*peer.Tessera).Add),
		ours("signed/256", "our log, signed decision sets, 256 adders", 256, root, (*peer.Ours).AddSigned),
		ours("signed/4096", "our log, signed decision sets, 4,096 adders", 4096, root, (*peer.Ours).AddSigned),
		{"ed25519", "Ed25519 signatures, all cores", func(_ context.Context, _ string, d time.Duration) (load.Sample, error) {
			return peer.Signatures(d), nil
		}},
		ours("ours/1", "our log, 1 adder", 1, leaf, (*peer.Ours).Add),
		{"pebble/1", "Pebble alone, one value a sync", bare(1)},
		{"fsync", "write and fsync of 512 octets", func(_ context.Context, dir string, d time.Duration) (load.Sample, error) {
			return peer.Fsync(dir, d)
		}},
		tessera("published/1", "Tessera, 1 adder, until published", 1, tessera1, (*peer.Tessera).AddPublished),
	}
}

func ours(name, what string, adders, size int, add func(*peer.Ours, context.Context, []byte) error) bout {
	return bout{name, what, func(ctx context.Context, dir string, d time.Duration) (s load.Sample, err error) {
		o, err := peer.OpenOurs(dir)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, o.Close()) }()
		return load.Load{Adders: adders, Size: size, Warm: warm, For: d}.Run(ctx, func(ctx context.Context, entry []byte) error {
			return add(o, ctx, entry)
		})
	}}
}

func tessera(name, what string, adders int, settings peer.TesseraSettings, add func(*peer.Tessera, context.Context, []byte) error) bout {
	return bout{name, what, func(ctx context.Context, dir string, d time.Duration) (s load.Sample, err error) {
		t, err := peer.OpenTessera(dir, settings)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, t.Close()) }()
		return load.Load{Adders: adders, Size: leaf, Warm: warm, For: d}.Run(ctx, func(ctx context.Context, entry []byte) error {
			return add(t, ctx, entry)
		})
	}}
}

func bare(batch int) func(context.Context, string, time.Duration) (load.Sample, error) {
	return func(_ context.Context, dir string, d time.Duration) (s load.Sample, err error) {
		p, err := peer.OpenPebble(dir)
		if err != nil {
			return s, err
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		return p.Sets(load.Load{Size: leaf, Warm: warm, For: d}, batch)
	}
}

// contest makes every measurement once a round.
func contest(ctx context.Context, dir string, o options, progress func(string, ...any)) (report, error) {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	stop, err := profile.Start(o.profile)
	if err != nil {
		return nil, err
	}
	c := &figures{Samples: make(map[string][]load.Sample)}
	for _, b := range bouts() {
		if only.MatchString(b.name) {
			c.bouts = append(c.bouts, b)
		}
	}
	for round := range o.rounds {
		for i, b := range c.bouts {
			s, err := inFolder(filepath.Join(dir, fmt.Sprintf("%d-%d", round, i)), func(dir string) (load.Sample, error) {
				return b.run(ctx, dir, o.measure)
			})
			if err != nil {
				return nil, errors.Join(fmt.Errorf("%s: %w", b.name, err), stop())
			}
			c.Samples[b.name] = append(c.Samples[b.name], s)
			progress("round %d of %d: %-12s %9.0f/s  p50 %-8v p99 %-8v CPU %v", round+1, o.rounds, b.name, s.Rate, ratio.Brief(s.P50), ratio.Brief(s.P99), ratio.Brief(s.CPU))
		}
	}
	return c, stop()
}

// inFolder runs f in an empty folder. What one measurement left to be written
// is written before the next begins.
func inFolder(dir string, f func(dir string) (load.Sample, error)) (s load.Sample, err error) {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return s, err
	}
	defer func() {
		err = errors.Join(err, os.RemoveAll(dir))
		syscall.Sync()
	}()
	return f(dir)
}
