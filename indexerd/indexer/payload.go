package indexer

import (
	"fmt"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/arc"
	"github.com/uzpif-oi/uzpif-oi/content/scp"
	"github.com/uzpif-oi/uzpif-oi/content/tct"
)

// checkPayload returns nil for a payload that may stand for url, by the rules
// of the format that its publisher says it is in.
func checkPayload(f content.Format, payload []byte, url string) error {
	switch f {
	case content.FormatTCT:
		return tct.Check(payload, url)
	case content.FormatSCP:
		return scp.Check(payload, url)
	case content.FormatARC:
		return arc.Check(payload, url)
	}
	return fmt.Errorf("%v is not taken here", f)
}
