package publisher

import (
	"google.golang.org/protobuf/proto"

	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// signedIn are the entries and the checkpoint of an answer.
func signedIn(answer proto.Message) [][]byte {
	switch a := answer.(type) {
	case *oiv1.BatchResult:
		return append(append([][]byte{}, a.Committed.GetEntries()...), a.Committed.GetCheckpoint())
	case *oiv1.Acknowledged:
		return [][]byte{a.Entry, a.Checkpoint}
	}
	return nil
}
