// Package machine says what figures were taken on.
package machine

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
)

// A Machine is what the figures were taken on.
type Machine struct {
	CPU        string `json:"cpu"`
	Cores      int    `json:"cores"`
	OS         string `json:"os"`
	Go         string `json:"go"`
	FileSystem string `json:"file_system"`
	LoadBefore string `json:"load_before"` // of the last minute, five, fifteen
	LoadAfter  string `json:"load_after"`
}

func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s, %s, %s; load average %s before, %s after",
		m.Cores, m.CPU, m.OS, m.Go, m.FileSystem, m.LoadBefore, m.LoadAfter)
}

// Of says what a folder is on. How busy the machine is afterwards is for the
// caller to fill in.
func Of(dir string) (Machine, error) {
	m := Machine{
		CPU: "an unknown processor", Cores: runtime.GOMAXPROCS(0), OS: runtime.GOOS + "/" + runtime.GOARCH,
		Go: runtime.Version(), LoadBefore: LoadAverage(),
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.OS += " " + strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				m.CPU = strings.TrimSpace(value)
			}
		}
	}
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return m, fmt.Errorf("%s: %w", dir, err)
	}
	names := map[int64]string{0xef53: "ext4", 0x58465342: "xfs", 0x9123683e: "btrfs", 0x2fc12fc1: "zfs", 0x794c7630: "overlayfs", 0x01021994: "tmpfs"}
	if m.FileSystem = names[int64(s.Type)]; m.FileSystem == "" {
		m.FileSystem = fmt.Sprintf("file system %#x", s.Type)
	}
	return m, nil
}

// LoadAverage says how busy the machine is, as it does itself.
func LoadAverage() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	f := strings.Fields(string(b))
	return strings.Join(f[:min(3, len(f))], " ")
}
