package publisher

import (
	"encoding/binary"

	"github.com/uzpif-oi/uzpif-oi/envelope"
)

// The publisher's rows. Names of collections and series hold no zero octet.
//
//	J coll 00 'm'           journal head (meta)
//	J coll 00 'h' h         the live revision of a page, by SHA-256(url)
//	J coll 00 'l' location  h: which page a location of the source gave
//	J coll 00 'r' revision  the page row
//	J coll 00 's'           the sitemap whose pages are all in the journal
//	A series 00 'c'         cursor
//	A series 00 'b'         pending batch
//	A series 00 'r'         pending rebind
//	A series 00 's' …       state tree
//	A series 00 't' …       rows of an indexer's state that are not proven yet
//	A series 00 'p' h       what was acknowledged of a page
//	A series 00 'l'         what is used of the grant's limits
//	A series 00 'n'         the number of receipts, and the last
//	A series 00 'd' rev h   where a page stands in the deletion after a revocation
//	A series 00 'e' rev     the leaves of that deletion
//	A series 00 'f' h       a page that is not delivered: its dead letter
//	A series 00 'g'         how many of those there are, by reason
//	A series 00 'h'         why the indexer takes nothing of it for now
//	A series 00 'a'         how many pages were signalled and asked for
//	A series 00 'q'         when the indexer was last asked to show pages
//	A series 00 'k' h       a payload that was acknowledged, as a base of patches
//	A series 00 'K'         what those weigh together
//	A series 00 'x'         the last alert about the end of its grant
//	R receipt               stored answer
//	E receipt n             leaves of the answer's n-th set
//	T indexer               the last verified checkpoint note of its log
//	L indexer 00 'a' series the last alarm of an agreement
//	L indexer 00 'c'        the last comparison with its public log
//	L indexer 00 'e' origin the tree with which a log of it ended
//	O                       how often the store was opened
func rowKey(space byte, name string, kind byte, rest ...[]byte) []byte {
	k := make([]byte, 0, 1+len(name)+2+40)
	k = append(append(k, space), name...)
	k = append(k, 0, kind)
	for _, r := range rest {
		k = append(k, r...)
	}
	return k
}

func revisionKey(coll string, revision uint64) []byte {
	return rowKey('J', coll, 'r', binary.BigEndian.AppendUint64(nil, revision))
}

func pageKey(coll string, h [32]byte) []byte { return rowKey('J', coll, 'h', h[:]) }

func pendingKey(series string) []byte { return rowKey('A', series, 'b') }

func receiptKey(id envelope.Hash) []byte { return append([]byte{'R'}, id[:]...) }

func setKey(id envelope.Hash, n int) []byte {
	return append(append([]byte{'E'}, id[:]...), byte(n))
}

func endKey(indexer envelope.Name, origin string) []byte {
	return rowKey('L', string(indexer), 'e', []byte(origin))
}

func openingsKey() []byte { return []byte{'O'} }

func treeKey(indexer envelope.Name) []byte { return append([]byte{'T'}, indexer...) }
