package indexer

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// FuzzItems decodes any octets as the content of a frame: what is accepted lies
// in scope and frame, in ascending revisions, and everything else has a reason.
func FuzzItems(f *testing.F) {
	scope, err := grants.PrefixScope(site)
	if err != nil {
		f.Fatal(err)
	}
	for _, list := range []*oiv1.Items{
		{},
		{Items: []*oiv1.Item{{Op: oiv1.Op_OP_PUT, RevisionDelta: 1, Url: site + "a", Format: 1, Length: 3}}},
		{Items: []*oiv1.Item{{Op: oiv1.Op_OP_PUT, RevisionDelta: 3, Url: site, Length: 1 << 63}, {Op: oiv1.Op_OP_TOMBSTONE, RevisionDelta: 1 << 63, Url: blogs}}},
	} {
		raw, err := proto.Marshal(list)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(raw, "abc"...), len(raw))
	}
	x := &Indexer{cfg: Config{Limits: DefaultLimits()}}
	pair := grants.Pair{Grant: &grants.Grant{Body: grants.GrantBody{Scope: scope}}}
	f.Fuzz(func(t *testing.T, raw []byte, itemsLen int) {
		if itemsLen < 0 || itemsLen > len(raw) {
			return // refused by what the header says, before a frame is read
		}
		in := &ingest{s: &session{x: x}, pair: pair, body: translog.Manifest{From: 5, Through: 12}}
		if err := in.decode(raw[:itemsLen], uint64(len(raw))); err != nil {
			if _, ok := asRefusal(err); !ok {
				t.Fatalf("no reason: %v", err)
			}
			return
		}
		revision, offset := uint64(5), uint64(itemsLen)
		for _, it := range in.items {
			switch {
			case it.revision <= revision || it.revision > 12:
				t.Fatalf("revision %d behind %d", it.revision, revision)
			case it.offset != offset || it.length > uint64(len(raw))-offset:
				t.Fatalf("payload at %d, of %d octets, in a frame of %d", it.offset, it.length, len(raw))
			case content.IsCanonical(it.url) != nil, it.op == translog.OpPut && scope.Match(it.url) != nil:
				t.Fatalf("URL %q", it.url)
			}
			revision, offset = it.revision, offset+it.length
		}
	})
}
