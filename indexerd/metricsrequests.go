package main

import "github.com/uzpif-oi/uzpif-oi/indexerd/indexer"

func requestMetrics() []metric {
	const p = "uzpif_oi_request_"
	return []metric{
		gauge(p+"wanted_pages", "Pages that are to be asked for.", func(f *indexer.Figures) float64 { return float64(f.Asks.Wanted) }),
		gauge(p+"open_pages", "Pages asked for in requests that are not answered.", func(f *indexer.Figures) float64 { return float64(f.Asks.Flying) }),
		counter(p+"signalled_pages_total", "Pages that publishers signalled since the start.", func(f *indexer.Figures) uint64 { return f.Asks.Signals }),
		counter(p+"asked_pages_total", "Pages asked for since the start.", func(f *indexer.Figures) uint64 { return f.Asks.Asked }),
		counter(p+"delivered_pages_total", "Of them, those that came.", func(f *indexer.Figures) uint64 { return f.Asks.Delivered }),
		counter(p+"refused_pages_total", "Of them, those that their publishers refused.", func(f *indexer.Figures) uint64 { return f.Asks.Refused }),
		counter(p+"cancelled_total", "Requests that were taken back.", func(f *indexer.Figures) uint64 { return f.Asks.Cancelled }),
	}
}
