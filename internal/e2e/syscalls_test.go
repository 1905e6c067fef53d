//go:build linux

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// A call is one that a watched program asked the kernel for: to connect to an
// address, or to bind one. The kernel held the program until it was noted, so
// that none is missed, however short the connection.
type call struct {
	connect bool
	addr    netip.AddrPort // of TCP and UDP; invalid for what stays on this machine, and for an address of no family
}

// A watch is a program whose calls are noted.
type watch struct {
	*exec.Cmd
	ended chan struct{}

	// callsMu guards calls and failed.
	callsMu sync.Mutex
	calls   []call
	failed  error
}

// TestMain is the tests, or, as the child of a watch, what becomes the program.
func TestMain(m *testing.M) {
	if os.Getenv(watchedEnv) == "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, becomeWatched(os.Args[1:]))
	os.Exit(1)
}

// watchedEnv is set for the child that a watch starts.
const watchedEnv = "UZPIF_OI_WATCHED"

// watched starts a program, and notes each connect and bind of it and of what it
// starts itself.
func watched(t *testing.T, program string, args ...string) *watch {
	t.Helper()
	self, err := os.Executable()
	pair.Check(t, err)
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	pair.Check(t, err)
	theirs := os.NewFile(uintptr(ends[1]), "watched")
	defer theirs.Close()
	defer syscall.Close(ends[0])
	w := &watch{Cmd: exec.Command(self, append([]string{program}, args...)...), ended: make(chan struct{})}
	w.Env = append(os.Environ(), watchedEnv+"=1")
	w.ExtraFiles = []*os.File{theirs} // number 3
	var stderr strings.Builder
	w.Stdout, w.Stderr = &stderr, &stderr
	pair.Check(t, w.Start())
	theirs.Close() // what is left is the child's: if it fails, the next line ends
	listener, err := receiveFile(ends[0])
	if err != nil {
		w.Wait()
		t.Fatalf("the kernel does not let a filter be set: %v: %s", err, stderr.String())
	}
	noted := make(chan struct{})
	go func() { defer close(noted); w.note(listener) }()
	go func() { w.Wait(); close(w.ended) }()
	t.Cleanup(func() {
		w.Process.Kill()
		<-w.ended
		<-noted
		syscall.Close(listener)
	})
	return w
}

// dialled are the addresses of TCP and UDP that the program has connected to.
func (w *watch) dialled(t *testing.T) []netip.AddrPort {
	return w.addresses(t, func(c call) bool { return c.connect })
}

// bound are those that the program has bound. An address of loopback without a
// port is left out: Go binds such ones to find out what the machine speaks.
func (w *watch) bound(t *testing.T) []netip.AddrPort {
	return w.addresses(t, func(c call) bool { return !c.connect && (c.addr.Port() != 0 || !c.addr.Addr().IsLoopback()) })
}

func (w *watch) addresses(t *testing.T, which func(call) bool) (all []netip.AddrPort) {
	t.Helper()
	w.callsMu.Lock()
	defer w.callsMu.Unlock()
	pair.Check(t, w.failed)
	for _, c := range w.calls {
		if c.addr.IsValid() && which(c) {
			all = append(all, c.addr)
		}
	}
	return all
}

// note takes one call after the other until the program has ended.
func (w *watch) note(listener int) {
	for {
		select {
		case <-w.ended:
			return
		default:
		}
		var ready syscall.FdSet
		ready.Bits[listener/64] |= 1 << (listener % 64)
		wait := syscall.NsecToTimeval(50e6)
		if n, err := syscall.Select(listener+1, &ready, nil, nil, &wait); n <= 0 || err != nil {
			continue
		}
		err := w.noteOne(listener)
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EINTR) { // the thread is gone
			continue
		}
		if err != nil {
			w.callsMu.Lock()
			w.failed = fmt.Errorf("a call that could not be noted: %w", err)
			w.callsMu.Unlock()
			return
		}
	}
}

// A notification and its answer, as the kernel lays them out.
type (
	notification struct {
		ID        uint64
		PID       uint32
		Flags     uint32
		Number    int32
		Arch      uint32
		At        uint64
		Arguments [6]uint64
	}
	notified struct {
		ID    uint64
		Value int64
		Error int32
		Flags uint32
	}
)

const (
	seccompSetFilter   = 1
	seccompNewListener = 1 << 3
	seccompReceive     = 0xc0502100
	seccompSend        = 0xc0182101
	seccompContinue    = 1
	retNotify          = 0x7fc00000
	retAllow           = 0x7fff0000
	prSetNoNewPrivs    = 38
)

func (w *watch) noteOne(listener int) error {
	var n notification
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(listener), seccompReceive, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return errno
	}
	c := call{connect: n.Number == syscall.SYS_CONNECT}
	sockaddr, err := readMemory(n.PID, n.Arguments[1], min(n.Arguments[2], 128))
	if err == nil {
		c.addr = parseSockaddr(sockaddr)
		w.callsMu.Lock()
		w.calls = append(w.calls, c)
		w.callsMu.Unlock()
	}
	answer := notified{ID: n.ID, Flags: seccompContinue}
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(listener), seccompSend, uintptr(unsafe.Pointer(&answer))); errno != 0 {
		return errors.Join(err, errno)
	}
	return err
}

func readMemory(pid uint32, at, length uint64) ([]byte, error) {
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return nil, err
	}
	defer memory.Close()
	b := make([]byte, length)
	_, err = memory.ReadAt(b, int64(at))
	return b, err
}

// parseSockaddr reads an address of the Internet; others are not valid.
func parseSockaddr(b []byte) netip.AddrPort {
	if len(b) < 8 {
		return netip.AddrPort{}
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.NativeEndian.Uint16(b); {
	case family == syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case family == syscall.AF_INET6 && len(b) >= 24:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])).Unmap(), port)
	}
	return netip.AddrPort{}
}

// receiveFile takes the file that came over a socket.
func receiveFile(socket int) (int, error) {
	octet, rights := make([]byte, 1), make([]byte, syscall.CmsgSpace(4))
	n, m, _, _, err := syscall.Recvmsg(socket, octet, rights, syscall.MSG_CMSG_CLOEXEC)
	if err != nil || n == 0 {
		return 0, errors.Join(errors.New("no file came"), err)
	}
	messages, err := syscall.ParseSocketControlMessage(rights[:m])
	if err != nil || len(messages) != 1 {
		return 0, errors.Join(errors.New("no file came"), err)
	}
	files, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(files) != 1 {
		return 0, errors.Join(errors.New("no file came"), err)
	}
	return files[0], nil
}

// becomeWatched puts a filter before connect and bind, gives its listener to
// the parent, and becomes the program. It returns only if that fails.
func becomeWatched(program []string) error {
	number, ok := map[string]uintptr{"amd64": 317, "arm64": 277}[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("no number of seccomp is known on %s", runtime.GOARCH)
	}
	runtime.LockOSThread() // the filter is this thread's, and of what it becomes
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("prctl: %w", errno)
	}
	filter := []syscall.SockFilter{
		{Code: syscall.BPF_LD | syscall.BPF_W | syscall.BPF_ABS, K: 0}, // the call's number
		{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, K: syscall.SYS_CONNECT, Jt: 2},
		{Code: syscall.BPF_JMP | syscall.BPF_JEQ | syscall.BPF_K, K: syscall.SYS_BIND, Jt: 1},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: retAllow},
		{Code: syscall.BPF_RET | syscall.BPF_K, K: retNotify},
	}
	prog := syscall.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	listener, _, errno := syscall.RawSyscall(number, seccompSetFilter, seccompNewListener, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	if err := syscall.Sendmsg(3, []byte{0}, syscall.UnixRights(int(listener)), nil, 0); err != nil {
		return fmt.Errorf("sendmsg: %w", err)
	}
	syscall.CloseOnExec(3)
	var environment []string
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, watchedEnv+"=") {
			environment = append(environment, v)
		}
	}
	return syscall.Exec(program[0], program, environment)
}
