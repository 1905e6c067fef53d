package publisher

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

func TestAlarmsKeepEachBadAnswerOnceAndABoundedNumber(t *testing.T) {
	p := &Publisher{dir: t.TempDir(), clock: time.Now, pulse: newPulse()}
	rel := &Relationship{Series: "docs-1", Indexer: "spiffe://search.test/indexer"}
	keep := func(answer string) {
		t.Helper()
		if err := p.keepBadAnswer(rel, []byte("manifest"), &oiv1.BatchResult{Series: answer}); err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		files, err := os.ReadDir(filepath.Join(p.dir, "alarms"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	keep("a")
	keep("a")
	keep("b")
	if n := count(); n != 2 {
		t.Errorf("%d files of two different answers", n)
	}
	for i := count(); i < maxAlarms; i++ {
		if err := os.WriteFile(filepath.Join(p.dir, "alarms", strconv.Itoa(i)+".json"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keep("c")
	if n := count(); n != maxAlarms {
		t.Errorf("%d files, at most %d", n, maxAlarms)
	}
}
