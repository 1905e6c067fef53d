package main

import (
	"time"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// The values of request_order.
const (
	orderNewest = "newest"
	orderOldest = "oldest"
)

// The bounds of what is asked for.
const (
	maxRequestRate    = 100_000
	maxRequestPages   = 256
	maxRequestBacklog = 100_000_000
)

func (c *config) checkRequests() error {
	switch {
	case !(c.RequestRate >= 0 && c.RequestRate <= maxRequestRate): // NaN included
		return cli.Errorf(cli.Config, "request_rate: %v, want 0 to %d pages a second", c.RequestRate, maxRequestRate)
	case c.RequestPages < 1 || c.RequestPages > maxRequestPages:
		return cli.Errorf(cli.Config, "request_pages: %d, want 1 to %d", c.RequestPages, maxRequestPages)
	case c.RequestOrder != orderNewest && c.RequestOrder != orderOldest:
		return cli.Errorf(cli.Config, "request_order: %.40q, want newest or oldest", c.RequestOrder)
	case c.RequestBacklog < 1 || c.RequestBacklog > maxRequestBacklog:
		return cli.Errorf(cli.Config, "request_backlog: %d, want 1 to %d", c.RequestBacklog, maxRequestBacklog)
	case c.RequestTimeout < time.Second || c.RequestTimeout > time.Hour:
		return cli.Errorf(cli.Config, "request_timeout: %s, want 1s to 1h", c.RequestTimeout)
	}
	return nil
}

// requests is how pages are asked for.
func (c *config) requests() indexer.Requests {
	r := indexer.Requests{
		Rate: c.RequestRate, Pages: c.RequestPages, Oldest: c.RequestOrder == orderOldest, Backlog: c.RequestBacklog, Timeout: c.RequestTimeout,
	}
	if r.Rate == 0 {
		r.Rate = -1
	}
	return r
}
