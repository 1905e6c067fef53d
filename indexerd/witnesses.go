package main

import (
	"io"
	"os"
	"path/filepath"

	"github.com/uzpif-oi/uzpif-oi/internal/cli"
	"github.com/uzpif-oi/uzpif-oi/translog/witness"
)

// The values of witness_policy: what is published without a quorum.
const (
	policyOpen   = "open"
	policyClosed = "closed"
)

// openWitnesses reads the policy file that the configuration names, from dir if
// its path is relative. It is nil if none is named.
func (c *config) openWitnesses(dir string) (*witness.Group, error) {
	if c.Witnesses == "" {
		return nil, nil
	}
	path := c.Witnesses
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, cli.Errorf(cli.Config, "witnesses: %w", err)
	}
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, witness.MaxPolicy+1))
	if err != nil {
		return nil, cli.Errorf(cli.Config, "witnesses: %w", err)
	}
	p, err := witness.ParsePolicy(b)
	if err != nil {
		return nil, cli.Errorf(cli.Config, "witnesses: %s: %w", path, err)
	}
	g, err := witness.NewGroup(p, witness.Options{Timeout: c.WitnessTimeout})
	if err != nil {
		return nil, cli.Errorf(cli.Config, "witnesses: %s: %w", path, err)
	}
	return g, nil
}
