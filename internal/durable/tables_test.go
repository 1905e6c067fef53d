package durable_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/durable/durabletest"
)

// deadRows is a disk whose store has a table of rows that were deleted since, between
// two that are there, and the path of that table.
func deadRows(t *testing.T) (d *durabletest.Disk, table string) {
	t.Helper()
	d = durabletest.New()
	s := open(t, d)
	var kv []string
	for i := range 2000 {
		kv = append(kv, fmt.Sprintf("d%05d", i), strings.Repeat("x", 20))
	}
	err := put(s, append(kv, "a", "1", "z", "2")...)
	for range 2 { // in tables of their own, the rows and what deletes them
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		s = open(t, d)
		b := s.NewBatch()
		if err = b.DeleteRange([]byte("d"), []byte("e")); err == nil {
			err = b.Commit()
		}
		_ = b.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := d.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	var most int64
	for _, name := range names {
		if size, err := d.Size(dir + "/" + name); err == nil && strings.HasSuffix(name, ".sst") && size > most {
			table, most = dir+"/"+name, size
		}
	}
	return d, table
}

// checked is whether the store on d opens, every row is read, and CheckTables finds
// nothing: what was not, each by one word.
func checked(t *testing.T, d *durabletest.Disk) (words []string) {
	t.Helper()
	s, err := durable.OpenReadOnly(dir, durable.Options{FS: d.FS(), Logger: quiet, CacheBytes: durable.CacheOnce})
	if err != nil {
		return []string{"open"}
	}
	defer s.Close()
	rows := 0
	for _, err := range s.Scan([]byte{0}, nil) {
		if err != nil {
			words = append(words, "scan")
			break
		}
		rows++
	}
	if rows != 2 && len(words) == 0 {
		words = append(words, "rows")
	}
	err = s.CheckTables(context.Background(), func(string, error) { words = append(words, "table") })
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// TestDamageAmongDeadRowsIsFound: any octet of a table, though no row that is there lies
// near it.
func TestDamageAmongDeadRowsIsFound(t *testing.T) {
	d, table := deadRows(t)
	if words := checked(t, d); len(words) > 0 {
		t.Fatalf("sound: %v", words)
	}
	size, err := d.Size(table)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	alone := 0
	for at := range int(size) {
		if size > 150 && at%(int(size)/150) != 0 && at < int(size)-64 {
			continue
		}
		hurt := d.Crash(rng, 0)
		if err := hurt.Damage(table, at); err != nil {
			t.Fatal(err)
		}
		words := checked(t, hurt)
		if len(words) == 0 {
			t.Errorf("octet %d of %d may be changed", at, size)
		}
		if len(words) == 1 && words[0] == "table" {
			alone++
		}
	}
	t.Logf("a scan does not find %d of them", alone)
	if alone == 0 {
		t.Error("a scan finds all of them: are there any dead rows?")
	}
}
