package main

import "github.com/uzpif-oi/uzpif-oi/indexerd/indexer"

func feedMetrics() []metric {
	const p = "uzpif_oi_feed_"
	return []metric{
		gauge(p+"streams", "Consumers that read now, one for each purpose.", func(f *indexer.Figures) float64 { return float64(f.Feed.Streams) }),
		gauge(p+"lag_changes", "Changes that the slowest of them was not told yet.", func(f *indexer.Figures) float64 { return float64(f.Feed.Lag) }),
		counter(p+"items_total", "Items told.", func(f *indexer.Figures) uint64 { return f.Feed.Items }),
		counter(p+"slow_total", "Streams ended since their consumer took nothing.", func(f *indexer.Figures) uint64 { return f.Feed.Slow }),
		counter(p+"refusals_total", "Streams refused.", func(f *indexer.Figures) uint64 { return f.Feed.Refused }),
	}
}
