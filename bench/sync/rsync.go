package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// rsync is what `rsync -az` from a daemon did for the same folder.
type rsync struct {
	First     copied `json:"first"`
	Unchanged copied `json:"unchanged"`
	Edited    copied `json:"edited"`
}

type copied struct {
	Octets  int64   `json:"octets"` // sent and received, by its own count
	Seconds float64 `json:"seconds"`
}

// A daemon is an rsync that serves one folder on the loopback interface.
type daemon struct {
	cmd     *exec.Cmd
	address string
	to      string
}

func startRsync(ctx context.Context, dir, site string) (*daemon, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := l.Addr().String()
	l.Close() // rsync has no way to choose a port by itself
	config := filepath.Join(dir, "rsyncd.conf")
	text := fmt.Sprintf("use chroot = no\nuid = %d\ngid = %d\n[site]\npath = %s\nread only = yes\n", os.Getuid(), os.Getgid(), site)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(address) // which Listen has made
	d := &daemon{address: address, to: filepath.Join(dir, "copy")}
	d.cmd = exec.Command("rsync", "--daemon", "--no-detach", "--address", host, "--port", port, "--config", config)
	if err := d.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%w (the Debian package rsync has it)", err)
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			c.Close()
			return d, nil
		}
	}
	d.stop()
	return nil, errors.Join(errors.New("the daemon of rsync does not answer"), ctx.Err())
}

// stop ends the daemon; how is of no interest.
func (d *daemon) stop() {
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.cmd.Wait()
}

// copy brings the copy up to the folder.
func (d *daemon) copy(ctx context.Context) (copied, error) {
	began := time.Now()
	out, err := exec.CommandContext(ctx, "rsync", "-az", "--delete", "--stats", "rsync://"+d.address+"/site/", d.to+"/").Output()
	if err != nil {
		return copied{}, fmt.Errorf("rsync: %w", err)
	}
	n, err := moved(out)
	return copied{n, time.Since(began).Seconds()}, err
}

// moved reads what rsync --stats says of the octets that went either way.
func moved(stats []byte) (int64, error) {
	var sum int64
	found := 0
	for line := range bytes.Lines(stats) {
		name, value, _ := strings.Cut(strings.TrimSpace(string(line)), ": ")
		if name != "Total bytes sent" && name != "Total bytes received" {
			continue
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(value, ",", ""), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("rsync --stats: %w", err)
		}
		sum += n
		found++
	}
	if found != 2 {
		return 0, errors.New("rsync --stats says nothing of its octets")
	}
	return sum, nil
}
