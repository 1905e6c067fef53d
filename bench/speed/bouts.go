package main

import (
	"context"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/bench/ratio"
)

// An input is what all measurements are made with.
type input struct {
	options
	collection string // SCP, of o.pages pages
}

// prepare writes what every round reads.
func prepare(dir string, o options) (input, error) {
	in := input{options: o, collection: filepath.Join(dir, "pages.scp.zst")}
	return in, writeCollection(in.collection, o.pages)
}

// A bout is one measurement; it gives samples under one or more names.
type bout struct {
	name  string
	asked bool // it is made only if --only names it
	run   func(ctx context.Context, dir string, in input) (ratio.Round, error)
}

// bouts are the measurements of a round, in this order.
func bouts() []bout {
	return []bout{
		{name: "floor", run: func(_ context.Context, dir string, in input) (ratio.Round, error) { return floor(dir, in, false) }},
		{name: "pipeline", run: pipeline},
		{name: "floor-packed", run: func(_ context.Context, dir string, in input) (ratio.Round, error) { return floor(dir, in, true) }},
		{name: "sync", run: syncReal},
		{name: "receipt", run: receipts},
		{name: "formats", run: formats},
		{name: "growth", run: growth},
		{name: "inside", asked: true, run: inside},
	}
}

// lines are what is printed, in this order.
func lines() []ratio.Line {
	return []ratio.Line{
		{Name: "pipeline", What: "SCP source to evaluated receipt, both daemons, pages"},
		{Name: "floor", What: "floor: read, hash, decompress, frames and rows synced, pages"},
		{Name: "floor-packed", What: "the same, and frames compressed as ours, pages"},
		{Name: "sync/first", What: "first sync of real pages, pages"},
		{Name: "sync/first/rsync", What: "rsync -az of them"},
		{Name: "sync/unchanged", What: "again, unchanged"},
		{Name: "sync/unchanged/rsync", What: "rsync -az again"},
		{Name: "sync/edited", What: "one page in a hundred edited"},
		{Name: "sync/edited/rsync", What: "rsync -az of them"},
		{Name: "receipt/floor", What: "2 Pebble syncs, fsync, 4 signatures, 4 verifications"},
		{Name: "receipt/idle", What: "receipt of one page in an open session, idle"},
		{Name: "receipt/edit", What: "from the edit of its file, scan included, idle"},
		{Name: "receipt/loaded", What: "receipt of one page, another publisher pushes"},
		{Name: "revocation/loaded", What: "revocation acknowledged, another publisher pushes"},
		{Name: "scp/read", What: "SCP read and verified, MB"},
		{Name: "scp/read/floor", What: "decompressed and tokenised alone, MB"},
		{Name: "scp/write", What: "SCP checked and written, MB"},
		{Name: "scp/write/floor", What: "tokenised and compressed alone, MB"},
		{Name: "tct/read", What: "TCT sitemap read, MB"},
		{Name: "tct/read/floor", What: "decompressed and tokenised alone, MB"},
		{Name: "tct/write", What: "TCT sitemap written, MB"},
		{Name: "tct/write/floor", What: "tokenised alone and compressed, MB"},
		{Name: "growth/small", What: "pipeline at half as many pages"},
		{Name: "growth/large", What: "pipeline at five times as many"},
		{Name: "restart", What: "restart of indexerd with those"},
		{Name: "disk/indexer", What: "octets on disk for each page, indexerd"},
		{Name: "disk/publisher", What: "octets on disk for each page, publisherd"},
		{Name: "inside", What: "both sides in one process, pages"},
		{Name: "inside/unchanged", What: "again, unchanged, pages"},
	}
}

// aims are what the whole way should be.
func aims() []ratio.Aim {
	seconds := func(name string) func(ratio.Round) float64 {
		return func(r ratio.Round) float64 { return r[name].P50.Seconds() }
	}
	return []ratio.Aim{
		ratio.Compare("pipeline, of the floor", true, 0.5, ratio.Rates, "pipeline", "floor"),
		ratio.Compare("pipeline, of the floor that compresses", true, 0.5, ratio.Rates, "pipeline", "floor-packed"),
		ratio.Compare("first sync of real pages, of rsync's rate", true, 1, ratio.Rates, "sync/first", "sync/first/rsync"),
		ratio.Compare("unchanged, of rsync's rate", true, 1, ratio.Rates, "sync/unchanged", "sync/unchanged/rsync"),
		ratio.Compare("one page in a hundred edited, of rsync's rate", true, 1, ratio.Rates, "sync/edited", "sync/edited/rsync"),
		ratio.Compare("p99 of an idle receipt, of its floor's", false, 5, ratio.Tails, "receipt/idle", "receipt/floor"),
		{Claim: "revocation under load, p99 in seconds", Bound: 1, Needs: []string{"revocation/loaded"},
			Ratio: func(r ratio.Round) float64 { return r["revocation/loaded"].P99.Seconds() }},
		ratio.Compare("SCP read, of its floor", true, 0.5, ratio.Rates, "scp/read", "scp/read/floor"),
		ratio.Compare("SCP written, of its floor", true, 0.5, ratio.Rates, "scp/write", "scp/write/floor"),
		ratio.Compare("TCT read, of its floor", true, 0.5, ratio.Rates, "tct/read", "tct/read/floor"),
		ratio.Compare("TCT written, of its floor", true, 0.5, ratio.Rates, "tct/write", "tct/write/floor"),
		ratio.Compare("CPU for a page at ten times as many pages", false, 1.3, ratio.CPUs, "growth/large", "growth/small"),
		{Claim: "restart with them, seconds", Bound: 2, Needs: []string{"restart"}, Ratio: seconds("restart")},
	}
}
