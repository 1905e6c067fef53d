package fleet

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

// A Copied is what one run of rsync did.
type Copied struct {
	Octets  int64   `json:"octets"` // sent and received, by its own count
	Seconds float64 `json:"seconds"`
	CPU     float64 `json:"cpu"` // seconds of the processors, without the daemon's
}

// An Rsync is its daemon, which serves one folder on the loopback interface.
type Rsync struct {
	cmd     *exec.Cmd
	address string
	To      string // the copy
}

// StartRsync serves site; what it needs and the copy go below dir.
func StartRsync(ctx context.Context, dir, site string) (*Rsync, error) {
	address, err := freePort() // rsync has no way to choose one by itself
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "rsyncd.conf")
	text := fmt.Sprintf("use chroot = no\nuid = %d\ngid = %d\n[site]\npath = %s\nread only = yes\n", os.Getuid(), os.Getgid(), site)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(address) // which Listen has made
	d := &Rsync{address: address, To: filepath.Join(dir, "copy")}
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
	d.Stop()
	return nil, errors.Join(errors.New("the daemon of rsync does not answer"), ctx.Err())
}

// Stop ends the daemon; how is of no interest.
func (d *Rsync) Stop() {
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.cmd.Wait()
}

// Copy brings the copy up to the folder.
func (d *Rsync) Copy(ctx context.Context) (Copied, error) {
	began := time.Now()
	cmd := exec.CommandContext(ctx, "rsync", "-az", "--delete", "--stats", "rsync://"+d.address+"/site/", d.To+"/")
	out, err := cmd.Output()
	if err != nil {
		return Copied{}, fmt.Errorf("rsync: %w", err)
	}
	took := time.Since(began)
	n, err := moved(out)
	return Copied{n, took.Seconds(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}, err
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
