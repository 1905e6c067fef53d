package indexer

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/translog/fsck"
)

func TestFilesAreCheckedAndBackedUp(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	c.push(s, puts("words", urls(site, 2)...)...)
	page := largePage(site+"large", 300<<10, 1)
	c.pushAlone(s, page)
	r.x.tlog.Publish(t.Context())

	copied := filepath.Join(t.TempDir(), "backup")
	m, err := r.x.Backup(t.Context(), copied, "test")
	if err != nil || m.Pages != 3 {
		t.Fatalf("backup: %+v, %v", m, err)
	}
	file := must[[]string](t)(filepath.Glob(filepath.Join(r.dir, "large", "*", "*")))[0]
	whole := must[[]byte](t)(os.ReadFile(file))
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	for _, tt := range []struct {
		name  string
		bytes []byte // nil: it is gone
		found fsck.Kind
	}{
		{"as it was written", whole, ""},
		{"with a flipped bit", flipped, findPage},
		{"without its end", whole[:len(whole)-1], findPage},
		{"that is gone", nil, findKey},
	} {
		if tt.bytes == nil {
			err = os.Remove(file)
		} else {
			err = os.WriteFile(file, tt.bytes, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		report := must[*FsckReport](t)(r.x.Fsck(t.Context(), FsckOptions{}))
		switch {
		case tt.found == "" && (!report.OK() || report.Pages != 3):
			t.Errorf("a file %s: %d pages, %v", tt.name, report.Pages, report.Findings)
		case tt.found != "" && (len(report.Findings) != 1 || report.Findings[0].Kind != tt.found):
			t.Errorf("a file %s: %v, want one finding of %s", tt.name, report.Findings, tt.found)
		}
	}
	if report := must[*FsckReport](t)(FsckFolder(t.Context(), copied, FsckOptions{})); !report.OK() || report.Pages != 3 {
		t.Errorf("the backup: %d pages, %v", report.Pages, report.Findings)
	}
}

func TestNothingIsSweptWhileItIsRead(t *testing.T) {
	t.Parallel()
	r := newLargeRig(t, nil)
	p := r.example()
	s := p.series("docs-1", site, nil)
	c := p.session(s)
	page := largePage(site+"large", 20<<10, 1)
	c.pushAlone(s, page)
	end, again := r.x.large.hold(), r.x.large.hold()
	end()
	c.push(s, change{url: page.url, text: "small"})
	r.x.sweepFiles()
	r.holds(s, page.url, "small", 1)
	again()
	r.x.sweepFiles()
	r.holds(s, page.url, "small", 0)
}
