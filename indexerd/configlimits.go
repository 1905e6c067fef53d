package main

import (
	"errors"

	"github.com/uzpif-oi/uzpif-oi/indexerd/indexer"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

func (c *config) checkAllowance() error {
	return errors.Join(
		cli.Within("publisher_pages", c.PublisherPages, 0, 1_000_000_000),
		cli.Within("publisher_storage_mib", c.PublisherStorage, 0, cli.MaxMiB),
		cli.Within("publisher_rate_mib", c.PublisherRate, 0, cli.MaxMiB),
		cli.Within("publisher_batches", c.PublisherBatches, 0, 100_000),
	)
}

// allowance is what each publisher may use.
func (c *config) allowance() indexer.Allowance {
	return indexer.Allowance{
		Pages: c.PublisherPages, Octets: c.PublisherStorage << 20,
		Rate: c.PublisherRate * (1 << 20), Batches: c.PublisherBatches,
	}
}
