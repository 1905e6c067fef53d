// Package audit writes down what an operator does to a daemon: who, what and when,
// in audit.log of its folder, a line of JSON an event. A change is begun only when
// the line that says so is on disk (TestNothingChangesUnwritten), with one
// exception: on a full disk it goes on, because consent must always be possible to
// withdraw (TestAFullDiskStopsNoRevocation). A second line says how it ended.
//
// The file is only ever appended to. It is replaced when it would outgrow maxFile,
// and keepFiles of those before it are kept: together they take at most
// maxFile·(1+keepFiles) octets (TestTheFilesAreBounded). Secrets have no place on
// a command line; what looks like one in a URL is left out
// (TestNoSecretOfAURLIsWritten). Nothing but a plain file of that one name is
// written, since root may run commands in the folder of another
// (TestNoOtherFileIsWritten).
package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/sys/unix"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

// The file, and its bounds.
const (
	File      = "audit.log"
	lockFile  = "audit.lock"
	maxFile   = 1 << 20 // octets
	keepFiles = 8       // audit.log.1, the newest, to audit.log.8
	maxArgs   = 32      // of one event; what is beyond is counted
	maxArg    = 300     // octets of one
)

// An Event is one line.
type Event struct {
	At      string   `json:"at"` // RFC 3339, UTC
	Event   string   `json:"event"`
	Program string   `json:"program"`
	Action  string   `json:"action"`
	Args    []string `json:"args,omitempty"`
	User    string   `json:"user"` // name and number
	PID     int      `json:"pid"`
	Error   string   `json:"error,omitempty"` // of an end
}

// The kinds of events.
const (
	Begun = "begun"
	Ended = "ended"
)

// A Log writes the events of one folder.
type Log struct {
	Dir     string
	Program string
	Now     func() time.Time
	// most is maxFile, and full is what each write ends with, but in tests.
	most int64
	full error
}

// Do writes that an action begins, does it, and writes how it ended. What cannot
// be written down is not done, unless the disk is full; warn is told of that, and
// of an end that could not be written.
func (l *Log) Do(who User, action string, args []string, warn func(error), do func() error) error {
	e := Event{Event: Begun, Action: action, Args: shown(args), User: who.String(), PID: who.PID}
	if err := l.write(e); err != nil {
		if !durable.IsFull(err) {
			return fmt.Errorf("%s: %w; nothing was changed", File, err)
		}
		warn(fmt.Errorf("%s: %w; going on", File, err))
	}
	done := do()
	e.Event, e.Args = Ended, nil
	if done != nil {
		e.Error = cut(strings.Join(strings.Fields(done.Error()), " "), 2*maxArg)
	}
	if err := l.write(e); err != nil {
		warn(fmt.Errorf("%s: %w", File, err))
	}
	return done
}

// write appends one event, and returns when it is on disk. Several processes may
// write: the lock holds one off while another appends or replaces the file.
func (l *Log) write(e Event) (err error) {
	e.At, e.Program = l.Now().UTC().Format(time.RFC3339Nano), l.Program
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	lock, err := l.open(lockFile, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return err
	}
	defer lock.Close() // gives the lock up as well
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	path := filepath.Join(l.Dir, File)
	if err := l.rotate(path, int64(len(line)+1)); err != nil {
		return err
	}
	f, err := l.open(File, os.O_APPEND|os.O_CREATE|os.O_WRONLY)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if l.full != nil {
		return l.full
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		return err
	}
	return f.Sync() // durable before the action begins
}

// open opens a file of the folder. What root makes there belongs to the folder's
// owner: the daemon would not begin with a file that it may not write to. Nothing
// but a plain file of one name is opened, so that the owner leads root to no other.
func (l *Log) open(name string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(l.Dir, name), flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	var folder, file unix.Stat_t
	err = errors.Join(unix.Stat(l.Dir, &folder), unix.Fstat(int(f.Fd()), &file))
	if err == nil && (file.Mode&unix.S_IFMT != unix.S_IFREG || file.Nlink != 1) {
		err = errors.New("it is no plain file of one name")
	}
	if err == nil && os.Geteuid() == 0 && file.Uid != folder.Uid {
		err = f.Chown(int(folder.Uid), int(folder.Gid))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f, nil
}

// rotate makes room for so many octets. The oldest file goes; a crash between two
// renames leaves a gap in the numbers, and loses nothing else.
func (l *Log) rotate(path string, octets int64) error {
	most := l.most
	if most == 0 {
		most = maxFile
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size()+octets <= most {
		return nil
	}
	if err != nil {
		return err
	}
	for i := keepFiles - 1; i >= 1; i-- {
		if err := os.Rename(numbered(path, i), numbered(path, i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(path, numbered(path, 1)); err != nil {
		return err
	}
	return syncFolder(l.Dir)
}

func numbered(path string, i int) string { return fmt.Sprintf("%s.%d", path, i) }

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// A User is who acts.
type User struct {
	UID, PID int
	Name     string
}

func (u User) String() string {
	if u.UID < 0 {
		return "unknown"
	}
	if u.Name == "" {
		return fmt.Sprintf("uid %d", u.UID)
	}
	return fmt.Sprintf("%s (uid %d)", u.Name, u.UID)
}

// Unknown is who cannot be told, such as the sender of a signal.
func Unknown() User { return User{UID: -1} }

// Self is who runs this process.
func Self() User { return named(User{UID: os.Getuid(), PID: os.Getpid()}) }

func named(u User) User {
	if known, err := user.LookupId(fmt.Sprint(u.UID)); err == nil {
		u.Name = known.Username
	}
	return u
}

// shown is what of the arguments is written down.
func shown(args []string) []string {
	var all []string
	for i, arg := range args {
		if i == maxArgs {
			return append(all, fmt.Sprintf("and %d more", len(args)-maxArgs))
		}
		all = append(all, cut(withoutSecret(arg), maxArg))
	}
	return all
}

// withoutSecret leaves user, password, query and fragment of a URL out.
func withoutSecret(arg string) string {
	flag, value, isFlag := strings.Cut(arg, "=")
	if !isFlag || strings.Contains(flag, "://") {
		flag, value = "", arg
	} else {
		flag += "="
	}
	u, err := url.Parse(value)
	if !strings.Contains(value, "://") {
		return arg
	}
	if err != nil {
		return flag + "(a URL that cannot be read)"
	}
	hidden := u.User != nil || u.RawQuery != "" || u.Fragment != ""
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	if !hidden {
		return arg
	}
	return flag + u.String() + " (shortened)"
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// Recent reads the newest events of a folder, the newest first, out of at most the
// last 64 KiB of the file. A line that is no event is left out.
func Recent(dir string, most int) ([]Event, error) {
	f, err := os.Open(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const tail = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return nil, err
	}
	var all []Event
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		var e Event
		if json.Unmarshal(s.Bytes(), &e) == nil {
			all = append(all, e)
		}
	}
	var newest []Event
	for i := len(all) - 1; i >= 0 && len(newest) < most; i-- {
		newest = append(newest, all[i])
	}
	return newest, nil
}
