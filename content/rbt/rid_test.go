package rbt_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gowebpki/jcs"

	"github.com/uzpif-oi/uzpif-oi/content/rbt"
)

func TestTheRIDOfAFileIsThatOfItsRawOctets(t *testing.T) {
	for octets, want := range map[string]string{
		"":        "urn:rabit:sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
		"hello\n": "urn:rabit:sha256:5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03",
	} {
		if got := rbt.FileRID([]byte(octets)); got.String() != want {
			t.Errorf("%q: %s", octets, got)
		}
	}
	if rbt.FileRID([]byte("a\r\n")) == rbt.FileRID([]byte("a\n")) || rbt.FileRID([]byte("\uFEFFa")) == rbt.FileRID([]byte("a")) {
		t.Error("line ends or a byte order mark do not count")
	}
}

func TestOnlyThePrintedFormOfAnRIDIsRead(t *testing.T) {
	for s, want := range map[string]bool{
		someRID: true, strings.ToUpper(someRID): false, someRID[:80]: false, someRID + "0": false, "urn:rabit:sha256:": false, "": false,
		"urn:rabit:collection:0123456789abcdef:docs": true, "urn:rabit:collection:0123456789abcdef:a/b%20c": true,
		"urn:rabit:collection:0123456789abcdef:a b": false, "urn:rabit:collection:0123456789abcde:docs": false,
		"urn:rabit:collection:0123456789abcdef:": false, "urn:rabit:collection:0123456789abcdef:a%2": false,
		"URN:rabit:sha256:" + someRID[17:]: false, "urn:rabit:sha1:00": false,
	} {
		r, err := rbt.ParseRID(s)
		if (err == nil) != want || err == nil && r.String() != s {
			t.Errorf("%q: %v, %v", s, r, err)
		}
	}
	r := rbt.CollectionRID(rbt.FileRID(nil), "a b/ä")
	if short, id := r.CollectionOf(); short != "e3b0c44298fc1c14" || id != "a b/ä" || !r.IsCollection() {
		t.Errorf("%s is of %s, %q", r, short, id)
	}
	if _, ok := r.Sum(); ok {
		t.Error("a collection has a digest")
	}
}

// TestTheRIDOfAManifest holds the rule against an implementation of RFC 8785 by
// others.
func TestTheRIDOfAManifest(t *testing.T) {
	data, err := aManifest(t).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	own, err := rbt.ManifestRID(data)
	if err != nil {
		t.Fatal(err)
	}
	m, err := rbt.ParseManifest(data, rbt.Options{})
	if err != nil || m.RID != own {
		t.Fatalf("it names %s and is %s: %v", m.RID, own, err)
	}
	blank := strings.Replace(string(data), m.Entries[1].RID.String(), "", 1)
	blank = strings.Replace(blank, `"rid": "`+own.String()+`",`, "", 1)
	canonical, err := jcs.Transform([]byte(blank))
	if err != nil || rbt.FileRID(canonical) != own {
		t.Errorf("%s by another implementation, %s here: %v", rbt.FileRID(canonical), own, err)
	}
	if short, id := m.Entries[1].RID.CollectionOf(); short != own.String()[17:33] || id != "part 1" {
		t.Errorf("the collection is of %s, %q", short, id)
	}
	for _, tt := range []struct {
		name     string
		old, new string
		same     bool
	}{
		{"another order and spacing", `"rbt": "0.2",`, `  "rbt"  :  "0.2"  ,`, true},
		{"another RID of itself", own.String(), someRID, true},
		{"another RID of a collection", m.Entries[1].RID.String(), "urn:rabit:collection:0000000000000000:x", true},
		{"a collection under a file's RID", m.Entries[1].RID.String(), someRID, false},
		{"another title", `"title": "T"`, `"title": "U"`, false},
		{"an extension", `"title": "T"`, `"title": "T", "x-acme-priority": 1`, false},
		{"a signature", `"title": "T"`, `"title": "T", "signature": {}`, false},
		{"a null", `"title": "T"`, `"title": "T", "x": null`, false},
	} {
		changed := strings.Replace(string(data), tt.old, tt.new, 1)
		got, err := rbt.ManifestRID([]byte(changed))
		if err != nil || (got == own) != tt.same || changed == string(data) {
			t.Errorf("%s: %s, %v", tt.name, got, err)
		}
	}
	if err := rbt.CheckManifest(data, m.RID); err != nil {
		t.Error(err)
	}
	if err := rbt.CheckManifest(data, rbt.FileRID(nil)); !errors.Is(err, rbt.ErrVerification) || rbt.CategoryOf(err) != rbt.VerificationFailed {
		t.Errorf("%v, want %v", err, rbt.ErrVerification)
	}
	// One who read the rule as it is printed hashed the RIDs of collections too.
	literal, err := jcs.Transform([]byte(strings.Replace(string(data), `"rid": "`+own.String()+`",`, "", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if err := rbt.CheckManifest(data, rbt.FileRID(literal)); err != nil {
		t.Errorf("the literal reading: %v", err)
	}
}

func TestAnEntryIsHeldAgainstAllThatItNames(t *testing.T) {
	data := []byte("hello\n")
	sum, _ := rbt.FileRID(data).Sum()
	other, _ := rbt.FileRID(nil).Sum()
	for _, tt := range []struct {
		name  string
		entry rbt.Entry
		ok    bool
		err   error
	}{
		{"RID and size", rbt.Entry{RID: rbt.SumRID(sum), Size: 6}, true, nil},
		{"a hash alone", rbt.Entry{Hash: &sum, Size: -1}, true, nil},
		{"nothing", rbt.Entry{Size: -1}, false, nil},
		{"another RID", rbt.Entry{RID: rbt.SumRID(other), Size: -1}, true, rbt.ErrVerification},
		{"another hash", rbt.Entry{RID: rbt.SumRID(sum), Hash: &other, Size: -1}, true, rbt.ErrVerification},
		{"another size", rbt.Entry{RID: rbt.SumRID(sum), Size: 7}, true, rbt.ErrVerification},
	} {
		if ok, err := tt.entry.Verify(sum, 6); ok != tt.ok || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, %v", tt.name, ok, err)
		}
	}
}
