package main

import (
	"errors"
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
	return errors.Join(
		cli.Within("request_rate", c.RequestRate, 0, maxRequestRate),
		cli.Within("request_pages", c.RequestPages, 1, maxRequestPages),
		cli.OneOf("request_order", c.RequestOrder, orderNewest, orderOldest),
		cli.Within("request_backlog", c.RequestBacklog, 1, maxRequestBacklog),
		cli.Within("request_timeout", c.RequestTimeout, time.Second, time.Hour),
	)
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
