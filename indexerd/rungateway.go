package main

import (
	"crypto/tls"
	"fmt"
	"net"

	"golang.org/x/net/netutil"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/indexerd/gateway"
)

// listenGateway binds the gateway, unless it is off.
func (d *daemon) listenGateway(c config) error {
	if d.frozen || c.Gateway == "off" {
		return nil
	}
	l, err := net.Listen("tcp", c.Gateway)
	if err != nil {
		return fmt.Errorf("gateway: %w", err)
	}
	d.bound.Gateway = l.Addr().String()
	d.gateway = gateway.New(gateway.Config{
		Indexer: d.x, Purpose: grants.Purpose(c.GatewayPurpose), URL: c.GatewayURL, Rate: c.GatewayRate,
		Proxied: c.GatewayCertificate == "", Log: d.log,
	})
	l = netutil.LimitListener(d.gateway.Listener(l), maxGatewayConns)
	d.gatewayListener = l
	if c.GatewayCertificate != "" {
		t, err := gateway.TLS(gatewayFile(d.dir, c.GatewayCertificate), gatewayFile(d.dir, c.GatewayKey), d.log)
		if err != nil {
			return err
		}
		t.NextProtos = []string{"http/1.1"}
		d.gatewayListener = tls.NewListener(l, t)
	}
	return nil
}
