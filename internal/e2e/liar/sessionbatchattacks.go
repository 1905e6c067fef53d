package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/content/tct"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// batchAttacks lie about what is sent.
var batchAttacks = []attack{
	{name: "out-of-scope", lie: "a batch with one page outside the scope", changes: func(s *series) []change {
		return append(onePage(s), put(s.rel.Pair.Grant.Body.Scope.Origins()[0]+"/elsewhere/page.html"))
	}},
	{name: "not-canonical-url", lie: "a URL that leads out of the scope by dots", changes: func(s *series) []change {
		return []change{put(s.prefix + "../elsewhere/page.html")}
	}},
	{name: "twice", lie: "a URL twice in one batch", changes: func(s *series) []change {
		return append(onePage(s), onePage(s)...)
	}},
	{name: "malformed-items", lie: "a list of items that is none", packed: func(b *parcel) { b.repack(bytes.Repeat([]byte{0xff}, 64), 64) }},
	{name: "trailing", lie: "octets behind the last payload", packed: func(b *parcel) {
		b.repack(append(b.raw, "and more"...), b.batch.ItemsBytes)
	}},
	{name: "malformed-payload", lie: "one page of two that is not of its format", series: spoilt(func(*liar, *grants.Draft) {}),
		changes: func(s *series) []change { return append(onePage(s), change{s.prefix + "bad.html", []byte("<html>")}) }},
	{name: "anothers-payload", lie: "a page that calls itself another", series: spoilt(func(*liar, *grants.Draft) {}),
		changes: func(s *series) []change { return []change{{s.prefix + "a.html", put(s.prefix + "b.html").payload}} }},
	{name: "oversize-page", lie: "a page that is larger than is accepted", series: spoilt(func(*liar, *grants.Draft) {}),
		changes: func(s *series) []change { return append(onePage(s), largePage(s.prefix+"large.html")) }},
	{name: "tombstone-not-held", lie: "the deletion of a page that nobody offered", series: spoilt(func(*liar, *grants.Draft) {}),
		changes: func(s *series) []change { return append(onePage(s), change{url: s.prefix + "never.html"}) }},
	{name: "oversize-frame", lie: "a frame that is larger than is accepted", packed: func(b *parcel) { b.batch.RawBytes = 1 << 40 }},
	{name: "oversize-compressed", lie: "a frame that is larger before decompression", packed: func(b *parcel) { b.batch.FrameBytes = 1 << 40 }},
	{name: "oversize-chunk", lie: "a piece of a frame that is larger than is accepted", packed: func(b *parcel) {
		b.frame, b.chunks = make([]byte, chunkBytes+1), chunkBytes+1
		b.batch.FrameBytes = uint64(len(b.frame))
	}},
	{name: "oversize-message", lie: "a message that is larger than any may be", packed: func(b *parcel) {
		b.frame, b.chunks = make([]byte, 8*chunkBytes), 8*chunkBytes
		b.batch.FrameBytes = uint64(len(b.frame))
	}},
	{name: "too-many-items", lie: "a batch of more items than are accepted", changes: manyPages},
	{name: "bomb", lie: "a small frame that expands far beyond its claim", packed: func(b *parcel) {
		b.frame = bomb(uint32(b.batch.RawBytes), 512)
		b.batch.FrameBytes = uint64(len(b.frame))
	}},
	{name: "no-frame", lie: "a frame that is no zstd", packed: func(b *parcel) { b.frame = bytes.Repeat([]byte{'x'}, len(b.frame)) }},
	{name: "revision-gap", lie: "a batch that begins behind what was committed", batch: func(b *parcel) {
		b.body.From += 7
		b.body.Through += 7
		b.offer(b.body.From)
	}},
	{name: "revision-reuse", lie: "other pages under revisions that were committed", batch: func(b *parcel) {
		b.body.From, b.body.Through = 0, b.s.revision
		b.offer(0)
	}},
	{name: "state-mismatch", lie: "a batch that leads to another state", batch: func(b *parcel) { b.body.StateAfter[0] ^= 1 }},
	{name: "state-before", lie: "a batch on top of another state", batch: func(b *parcel) { b.body.StateBefore[0] ^= 1 }},
	{name: "wrong-offered", lie: "a manifest that was signed for other items", batch: func(b *parcel) { b.body.Offered.Root[0] ^= 1 }},
	{name: "foreign-manifest", lie: "a manifest that an unknown key signed", batch: func(b *parcel) { b.signer = b.l.stranger }},
	{name: "manifest-signature", lie: "a manifest whose signature is spoilt", packed: func(b *parcel) {
		b.spoilt = spoilSignature(b.batch.Manifest)
	}},
	{name: "manifest-audience", lie: "a manifest for another indexer", batch: func(b *parcel) { b.header.Audience = "spiffe://elsewhere.test/indexer" }},
	{name: "manifest-publisher", lie: "a manifest in the name of another publisher", batch: func(b *parcel) { b.body.Publisher = "spiffe://victim.test/publisher" }},
	{name: "manifest-collection", lie: "a manifest for another collection", batch: func(b *parcel) { b.body.CollectionRef = b.s.rel.LeafKey.CollectionRef("other") }},
	{name: "manifest-grant", lie: "a batch under a grant that was not announced", batch: func(b *parcel) { b.body.GrantID[0] ^= 1 }},
	{name: "unannounced", lie: "a batch of a series that was not announced", packed: func(b *parcel) { b.batch.Series = "lies-unheard-of" }},
	{name: "interrupted", lie: "a batch in the middle of a batch", packed: func(b *parcel) { b.interrupted = true }},
}

// spoilSignature changes the first character of the signature of an object.
func spoilSignature(raw []byte) error {
	const member = `"sig":"`
	i := bytes.LastIndex(raw, []byte(member))
	if i < 0 {
		return errors.New("no signature")
	}
	c := &raw[i+len(member)]
	if *c == 'A' {
		*c = 'B'
	} else {
		*c = 'A'
	}
	return nil
}

// largePage is valid, and larger than any indexer takes.
func largePage(url string) change {
	payload, _ := tct.Encode(nil, tct.Document{URL: url, Title: "A page", Content: strings.Repeat("words ", 3<<20)})
	return change{url, payload}
}

// manyPages are deletions, so that only their number can be at fault.
func manyPages(s *series) []change {
	all := make([]change, 8193)
	for i := range all {
		all[i] = change{url: s.prefix + "many/" + strconv.Itoa(i) + ".html"}
	}
	return all
}

// bomb is a zstd frame of so many blocks of 128 KiB of nothing each, whose
// header claims claim octets (RFC 8878, 3.1.1).
func bomb(claim uint32, blocks int) []byte {
	const (
		magic   = "\x28\xb5\x2f\xfd"
		fourFCS = 2 << 6  // the content size has four octets
		window  = 13 << 3 // 8 MiB
		block   = 128 << 10
		rle     = 1
	)
	frame := append([]byte(magic), fourFCS, window)
	frame = binary.LittleEndian.AppendUint32(frame, claim)
	for i := range blocks {
		header := uint32(block<<3 | rle<<1)
		if i == blocks-1 {
			header |= 1
		}
		frame = append(frame, byte(header), byte(header>>8), byte(header>>16), 0)
	}
	return frame
}
