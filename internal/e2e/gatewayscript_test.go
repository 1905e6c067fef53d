package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// gatewayAddress DIR sets GATEWAY to the address of the gateway of a daemon that runs,
// and GATEWAY_PORT to its port.
func gatewayAddress(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gateway DIR")
	}
	var r struct{ Gateway string }
	b, err := os.ReadFile(filepath.Join(ts.MkAbs(args[0]), "run.json"))
	ts.Check(err)
	ts.Check(json.Unmarshal(b, &r))
	_, port, err := net.SplitHostPort(r.Gateway)
	ts.Check(err)
	ts.Setenv("GATEWAY", r.Gateway)
	ts.Setenv("GATEWAY_PORT", port)
}

// request METHOD PATH sends one to the gateway in the clear, the path as it is, and
// prints the answer.
func request(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: request METHOD PATH")
	}
	conn, err := net.Dial("tcp", ts.Getenv("GATEWAY"))
	ts.Check(err)
	defer conn.Close()
	ts.Check(conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: mirror.test\r\nConnection: close\r\n\r\n", args[0], args[1])
	ts.Check(err)
	raw, err := io.ReadAll(conn)
	ts.Check(err)
	io.WriteString(ts.Stdout(), strings.ReplaceAll(string(raw), "\r\n", "\n")) // to a buffer
}
