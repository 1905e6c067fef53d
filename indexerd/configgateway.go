package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/cli"
)

// maxGatewayConns bounds the connections to the gateway at once.
const maxGatewayConns = 1024

// gatewayFile is the path of a file that the configuration in dir names.
func gatewayFile(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// checkGateway refuses a gateway that would hand out pages in the clear to more than
// this machine.
func (c *config) checkGateway() error {
	host, _, err := net.SplitHostPort(c.Gateway)
	if c.Gateway == "off" || err != nil { // the address is judged with the others
		return nil
	}
	faults := []error{cli.Within("gateway_rate", c.GatewayRate, 0, 1e6)}
	if (c.GatewayCertificate == "") != (c.GatewayKey == "") {
		faults = append(faults, errors.New("gateway_certificate and gateway_key: name both, or neither"))
	}
	addr, err := netip.ParseAddr(host)
	if c.GatewayCertificate == "" && (err != nil || !addr.IsLoopback()) {
		faults = append(faults, fmt.Errorf("gateway: %s is not on loopback, so it needs gateway_certificate and gateway_key", c.Gateway))
	}
	if err := content.IsCanonical(c.GatewayURL); err != nil || !strings.HasSuffix(c.GatewayURL, "/") || strings.Count(c.GatewayURL, "/") != 3 {
		faults = append(faults, fmt.Errorf("gateway_url: %.200q, want the root of an origin, such as https://mirror.example/", c.GatewayURL))
	}
	if _, err := grants.ParsePurpose(c.GatewayPurpose); err != nil {
		faults = append(faults, fmt.Errorf("gateway_purpose: %w", err))
	}
	return errors.Join(faults...)
}
