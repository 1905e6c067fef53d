package cli

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
)

func TestAddressesThatCannotBeBoundAreFaults(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		all  []Address
		want []string // a part of each fault
	}{
		{"free ones, one that is off, and one that is judged elsewhere", []Address{{"listen", "127.0.0.1:0"}, {"public", "127.0.0.1:0"}, {"feed", "off"}, {"admin", "nonsense"}}, nil},
		{"one that somebody else has", []Address{{"listen", taken.Addr().String()}, {"public", "127.0.0.1:0"}}, []string{"listen: "}},
		{"one that another machine has", []Address{{"listen", "192.0.2.1:7443"}}, []string{"listen: "}},
		{"one twice", []Address{{"public", "127.0.0.1:65432"}, {"admin", "127.0.0.1:65432"}}, []string{"admin: 127.0.0.1:65432 is named twice"}},
	} {
		u := &Checkup{Dir: dir}
		u.Addresses("admin.sock", tt.all...)
		if len(u.faults) != len(tt.want) {
			t.Errorf("%s: faults %q", tt.name, u.faults)
			continue
		}
		for i, want := range tt.want {
			if !strings.HasPrefix(u.faults[i], want) {
				t.Errorf("%s: fault %q, want %q", tt.name, u.faults[i], want)
			}
		}
	}
}

func TestADiskWithoutRoomIsAFaultOrAWarning(t *testing.T) {
	for _, tt := range []struct {
		name             string
		want             durable.Room
		faults, warnings int
	}{
		{"nothing is asked for", durable.Room{}, 0, 0},
		{"more ballast than there is disk", durable.Room{Ballast: 1 << 60}, 1, 0},
		{"more to be free than there is disk", durable.Room{LowWater: 1 << 60}, 0, 1},
	} {
		u := &Checkup{Dir: t.TempDir()}
		u.Disk(tt.want)
		if len(u.faults) != tt.faults || len(u.warnings) != tt.warnings {
			t.Errorf("%s: faults %q, warnings %q", tt.name, u.faults, u.warnings)
		}
	}
	u := &Checkup{Dir: "/nowhere"}
	if u.Disk(durable.Room{}); len(u.faults) == 0 {
		t.Error("a folder that is not there is well")
	}
}

func TestEachFaultIsALineOfItsOwn(t *testing.T) {
	dir, asJSON := ".", false
	run := func(check func(*Checkup) string) (out, complaints string, code Code) {
		var stdout, stderr strings.Builder
		root := &cobra.Command{Use: "prog"}
		root.AddCommand(CheckConfigCommand(&dir, &asJSON, "Check", check))
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		n := Run(root, []string{"check-config"}, &stderr)
		return stdout.String(), stderr.String(), Code(n)
	}
	well := func(u *Checkup) string { u.Warn("old"); return "all of it" }
	ill := func(u *Checkup) string {
		u.Fault("", errors.Join(errors.New("a: one"), errors.New("b: two")))
		return ""
	}
	if out, complaints, code := run(well); out != "ok: all of it\n" || complaints != "warning: old\n" || code != OK {
		t.Errorf("well: %q, %q, %d", out, complaints, code)
	}
	if out, complaints, code := run(ill); out != "" || complaints != "fault: a: one\nfault: b: two\nprog: 2 faults in .\n" || code != Config {
		t.Errorf("ill: %q, %q, %d", out, complaints, code)
	}
	asJSON = true
	if out, _, code := run(ill); out != `{"ok":false,"faults":["a: one","b: two"],"warnings":[]}`+"\n" || code != Config {
		t.Errorf("as JSON: %q, %d", out, code)
	}
}
