package main

import "github.com/uzpif-oi/uzpif-oi/indexerd/indexer"

// figures adds what the gateway counts to what the indexer does.
func (d *daemon) figures() (indexer.Figures, error) {
	f, err := d.x.Figures()
	if d.gateway != nil {
		f.Gateway = d.gateway.Figures()
	}
	return f, err
}

func gatewayMetrics() []metric {
	const p = "uzpif_oi_gateway_"
	return []metric{
		counter(p+"requests_total", "Requests to the gateway.", func(f *indexer.Figures) uint64 { return f.Gateway.Requests }),
		counter(p+"limited_total", "Requests answered 429.", func(f *indexer.Figures) uint64 { return f.Gateway.Limited }),
		counter(p+"refusals_total", "Requests for what may not be handed out.", func(f *indexer.Figures) uint64 { return f.Gateway.Refused }),
		counter(p+"cut_total", "Answers that were cut off where permission ended.", func(f *indexer.Figures) uint64 { return f.Gateway.Cut }),
		counter(p+"crowded_total", "Connections closed at once, of a client that has too many.", func(f *indexer.Figures) uint64 { return f.Gateway.Crowded }),
	}
}
