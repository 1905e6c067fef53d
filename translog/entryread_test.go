package translog

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// slowEntry is an Entry that is decoded as any other body.
type slowEntry Entry

// readAlike compares both ways to read a body.
func readAlike(t *testing.T, body []byte) (read bool) {
	t.Helper()
	var slow slowEntry
	err := envelope.DecodeCanonical(body, &slow)
	var fast Entry
	read = fast.ReadBody(body)
	switch {
	case read && err != nil && envelope.DecodeCanonical(body, new(jsontext.Value)) != nil:
		// It is not canonical, and no body: a Reader trusts that it is.
	case read && err != nil:
		t.Errorf("%s\n is read by hand, and refused by the library: %v", body, err)
	case read && !reflect.DeepEqual(fast, Entry(slow)):
		t.Errorf("%s\n is read by hand as %+v,\nby the library as %+v", body, fast, slow)
	case !read && !reflect.DeepEqual(fast, Entry{}):
		t.Errorf("%s\n is not read, and leaves %+v", body, fast)
	}
	return read
}

// plainEntry is a body in which every member is present.
func plainEntry(t testing.TB) []byte {
	t.Helper()
	e := Entry{
		BatchID: testHash(1), CheckpointRef: testHash(2), CollectionRef: testHash(3), Decision: Include, From: 3, GrantExpiresAt: envelope.At(newTime(noon)),
		GrantID: testHash(4), Indexer: testIndexer, JournalEpoch: envelope.MaxInteger, LogOrigin: "log.test/1", Objects: Set{7, testHash(5)},
		PolicyHash: testHash(6), Profile: Profile, Purposes: []string{"search.index", "ai.train"}, RevocationID: testHash(7),
		ScopeHash: testHash(8), State: testHash(9), Status: Accepted, Through: 5,
	}
	body, err := e.encode(new(envelope.Encoder))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// TestNothingIsReadInAnotherWay takes a body apart: members missing, twice, empty,
// in another order or of another type are read by hand as by the library, or not.
func TestNothingIsReadInAnotherWay(t *testing.T) {
	body := plainEntry(t)
	if !readAlike(t, body) {
		t.Fatalf("not read: %s", body)
	}
	pieces := []string{"", "0", "1", `""`, `"x"`, "[]", `["a"]`, `["a","b"]`, "{}", "-1", "true", "9007199254740992", `"\n"`, `"2026-07-01T12:00:00Z"`, `,"zz":1`,
		`"sha256:0000000000000000000000000000000000000000000000000000000000000000"`}
	for i := range body {
		readAlike(t, append(bytes.Clone(body[:i]), body[i+1:]...))
		for _, c := range []byte(`"{}[],:09aAz\`) {
			changed := bytes.Clone(body)
			changed[i] = c
			readAlike(t, changed)
		}
		if body[i] != ':' {
			continue
		}
		end := i + 1 + bytes.IndexAny(body[i+1:], ",}")
		for _, piece := range pieces {
			readAlike(t, bytes.Join([][]byte{body[:i+1], []byte(piece), body[end:]}, nil))
		}
	}
}

// FuzzReadEntry compares the two ways to read an entry's body.
func FuzzReadEntry(f *testing.F) {
	body := plainEntry(f)
	f.Add(body)
	f.Add(bytes.Replace(body, []byte(`"from":3`), []byte(`"from":-3`), 1))
	f.Add(bytes.Replace(body, []byte(`["search.index","ai.train"]`), []byte(`[]`), 1))
	f.Fuzz(func(t *testing.T, body []byte) { readAlike(t, body) })
}
