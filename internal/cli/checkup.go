package cli

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/identity"
)

// A Checkup gathers all that is wrong with a folder, without changing anything in
// it. A fault keeps the daemon from working; a warning does not, yet.
type Checkup struct {
	Dir      string
	faults   []string
	warnings []string
}

// Fault notes each of the errors that err is made of; nil is none.
func (u *Checkup) Fault(about string, err error) {
	for _, one := range Faults(err) {
		text := sentence(one)
		if about != "" {
			text = about + ": " + text
		}
		u.faults = append(u.faults, text)
	}
}

// Warn notes what an operator should see to.
func (u *Checkup) Warn(format string, args ...any) {
	u.warnings = append(u.warnings, fmt.Sprintf(format, args...))
}

// soon is how long before its end a certificate is warned of.
const soon = 14 * 24 * time.Hour

// Identity loads the identity, and judges its certificate, of its own or in files,
// which may be nil. Without an identity there is nil.
func (u *Checkup) Identity(files *identity.CertificateFiles, now time.Time) *identity.Local {
	l, err := identity.Load(u.Dir, now)
	if err != nil {
		u.Fault("identity", err)
		return nil
	}
	if err := CheckCertificate(l, files); err != nil {
		u.Fault("certificate", err)
		return l
	}
	if s := l.Status(now); files != nil && s.NotAfter.Sub(now) < soon {
		u.Warn("certificate: %s ends at %s", s.Source, s.NotAfter)
	}
	return l
}

// An Address is one that the daemon is to listen on.
type Address struct{ Key, Addr string }

// Addresses finds addresses that are named twice, that do not exist on this
// machine, or that somebody else uses; the last two only while no daemon of this
// folder runs, by binding each for a moment. An address that is off, or no address,
// is left out.
func (u *Checkup) Addresses(socket string, all ...Address) {
	running := false
	if c, err := net.Dial("unix", filepath.Join(u.Dir, socket)); err == nil {
		running = true
		c.Close()
	}
	var seen []string
	for _, a := range all {
		_, port, err := net.SplitHostPort(a.Addr)
		if a.Addr == "off" || err != nil {
			continue
		}
		if port != "0" && slices.Contains(seen, a.Addr) {
			u.Fault(a.Key, fmt.Errorf("%s is named twice", a.Addr))
			continue
		}
		seen = append(seen, a.Addr)
		if running {
			continue
		}
		l, err := net.Listen("tcp", a.Addr)
		if err != nil {
			u.Fault(a.Key, err)
			continue
		}
		l.Close()
	}
}

// Disk finds a folder that cannot be written to, and a disk without the room that
// the daemon asks for.
func (u *Checkup) Disk(want durable.Room) {
	if err := unix.Access(u.Dir, unix.W_OK|unix.X_OK); err != nil {
		u.Fault("disk", fmt.Errorf("%s: this user may not write there: %w", u.Dir, err))
	}
	var s unix.Statfs_t
	if err := unix.Statfs(u.Dir, &s); err != nil {
		u.Fault("disk", fmt.Errorf("%s: %w", u.Dir, err))
		return
	}
	free := int64(min(s.Bavail, 1<<40)) * int64(s.Bsize)
	ballast := want.Ballast
	if info, err := os.Stat(filepath.Join(u.Dir, "store.ballast")); err == nil {
		ballast = max(0, ballast-info.Size())
	}
	switch {
	case free < ballast:
		u.Fault("disk", fmt.Errorf("%d MiB are free, ballast_mib asks for %d", free>>20, want.Ballast>>20))
	case free-ballast < want.LowWater:
		u.Warn("disk: %d MiB are free, low_water_mib asks for %d: no content is taken", free>>20, want.LowWater>>20)
	}
}

// checked is the result as --json prints it.
type checked struct {
	OK       bool     `json:"ok"`
	Says     string   `json:"says,omitzero"` // of a folder that is well
	Faults   []string `json:"faults"`
	Warnings []string `json:"warnings"`
}

// CheckConfigCommand makes check-config of one program. check gives one line about
// a folder that is well.
func CheckConfigCommand(dir *string, asJSON *bool, short string, check func(u *Checkup) string) *cobra.Command {
	return &cobra.Command{
		Use: "check-config", Short: short, Args: cobra.NoArgs,
		Long: short + ".\n\nIt asks nobody over a network. All faults are told at once, and the exit code is 78 if there is any.\nWarnings are for later, and do not count.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			u := &Checkup{Dir: *dir, faults: []string{}, warnings: []string{}}
			says := check(u)
			return u.tell(cmd, *asJSON, says)
		},
	}
}

func (u *Checkup) tell(cmd *cobra.Command, asJSON bool, says string) error {
	r := checked{OK: len(u.faults) == 0, Faults: u.faults, Warnings: u.warnings}
	if r.OK {
		r.Says = says
	}
	if asJSON {
		if err := PrintJSON(cmd.OutOrStdout(), r); err != nil {
			return err
		}
	}
	for _, w := range u.warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "warning: %s\n", w)
	}
	switch {
	case len(u.faults) == 1:
		return With(Config, errors.New(u.faults[0]))
	case len(u.faults) > 1:
		for _, f := range u.faults {
			fmt.Fprintf(cmd.ErrOrStderr(), "fault: %s\n", f)
		}
		return Errorf(Config, "%d faults in %s", len(u.faults), u.Dir)
	case !asJSON:
		_, err := fmt.Fprintln(cmd.OutOrStdout(), "ok: "+says)
		return err
	}
	return nil
}
