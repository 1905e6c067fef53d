package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/internal/e2e/pair"
)

// commandBlock is a block of commands in a page, with the machine it is for.
var commandBlock = regexp.MustCompile("(?ms)^```sh (indexer|publisher)\n(.*?)^```$")

// The programs that the page needs of a machine, stood in for: packages are
// installed already, commands run as the user of the test, and the service
// manager starts, stops and reloads as the units say.
const (
	sudoShim = `#!/bin/sh
test "$1" = -u && shift 2
exec "$@"
`
	systemctlShim = `#!/bin/sh
set -e
verb=$1
shift
test "$1" != --now || shift
dir=$WORK/var/lib/$1
pid() { sed 's/.*"pid":\([0-9]*\).*/\1/' "$dir/run.json"; }
stop() {
	p=$(pid)
	kill -TERM "$p"
	while kill -0 "$p" 2>/dev/null; do sleep 0.05; done
}
start() {
	"$1" run --dir "$dir" >>"$WORK/$1.log" 2>&1 &
	i=0
	until test -e "$dir/run.json"; do
		i=$((i + 1))
		test $i -lt 1200 || { cat "$WORK/$1.log"; exit 1; }
		sleep 0.05
	done
}
case $verb in
enable | start) start "$1" ;;
stop) stop ;;
restart) stop; start "$1" ;;
reload) kill -HUP "$(pid)" ;;
*) exit 2 ;;
esac
`
)

// TestTheOperatorsPageWorks plays every command of doc/operations.md.
func TestTheOperatorsPageWorks(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	bin := filepath.Join(work, "bin")
	for name, text := range map[string]string{"sudo": sudoShim, "systemctl": systemctlShim, "dpkg": "#!/bin/sh\ntest \"$1\" = -i\n"} {
		writeProgram(t, filepath.Join(bin, name), text)
	}
	for _, dir := range []string{"var/lib", "var/backups/indexerd", "var/backups/publisherd", "srv/www/docs", "home"} {
		if err := os.MkdirAll(filepath.Join(work, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(work, "srv/www/docs"), os.DirFS(filepath.Join(root, "testdata", "site"))); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "doc", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	session, public, admin := freeAddress(t), freeAddress(t), freeAddress(t)
	here := strings.NewReplacer(
		"0.0.0.0:7443", session, "search.example:7443", session, "0.0.0.0:7480", public, "search.example:7480", public, "127.0.0.1:7482", admin,
		"/var/", work+"/var/", "/srv/", work+"/srv/", "_*.deb", ".deb",
	)
	blocks := commandBlock.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 15 || len(blocks) != strings.Count(string(page), "```sh") {
		t.Fatalf("%d blocks of commands are understood", len(blocks))
	}
	env := append(os.Environ(), "WORK="+work, "PATH="+bin+":"+buildPrograms(t)+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		for _, name := range []string{"publisherd", "indexerd"} {
			if _, err := os.Stat(filepath.Join(work, "var/lib", name, "run.json")); err == nil {
				runShell(t, env, work, "systemctl stop "+name)
			}
		}
	})
	for _, b := range blocks {
		if out, err := runShell(t, env, filepath.Join(work, "home"), here.Replace(b[2])); err != nil {
			t.Fatalf("on the %s's machine: %v\n%s%s", b[1], err, out, logs(work))
		}
	}
}

// logs are the last lines that the daemons wrote.
func logs(work string) string {
	var all strings.Builder
	for _, name := range []string{"publisherd", "indexerd"} {
		b, _ := os.ReadFile(filepath.Join(work, name+".log"))
		fmt.Fprintf(&all, "%s:\n%s\n", name, b[max(0, len(b)-4000):])
	}
	return all.String()
}

// runShell runs a script in a folder; it has three minutes.
func runShell(t *testing.T, env []string, dir, script string) (string, error) {
	t.Helper()
	c := exec.Command("sh", "-ex", "-c", script)
	c.Env, c.Dir, c.WaitDelay = env, dir, time.Second
	limit := time.AfterFunc(3*time.Minute, func() { _ = c.Process.Kill() })
	defer limit.Stop()
	out, err := c.CombinedOutput()
	return string(out), err
}

func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// freeAddress is pair.OwnAddress for a test.
func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := pair.OwnAddress()
	pair.Check(t, err)
	return address
}
