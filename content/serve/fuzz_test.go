package serve

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// FuzzConditions shows that a request's conditions give one of the three answers
// that there are, that what matches strongly matches weakly, and that a list to
// which the ETag is added has it, unless what stands in front of it is broken.
func FuzzConditions(f *testing.F) {
	f.Add(`"a", W/"b"`, "b", "Sat, 28 Nov 2026 16:00:00 GMT")
	f.Add(`*`, "sha256-00", "")
	f.Add(`"x-gzip",,`, "x", "0")
	f.Add(`W/"a" "b`, "b", "Monday")
	f.Fuzz(func(t *testing.T, list, etag, date string) {
		if strings.ContainsAny(etag, "\"\r\n,") || etag == "" {
			return
		}
		if matches([]string{list}, etag, false) && !matches([]string{list}, etag, true) {
			t.Errorf("%q has %q by the strong comparison alone", list, etag)
		}
		if !matches([]string{`"` + etag + `"`, list}, etag, false) || matches([]string{`W/"` + etag + `"`}, etag, false) {
			t.Errorf("%q is not told from its weak form", etag)
		}
		p := &Representation{ETag: etag, Modified: time.Unix(1_800_000_000, 5)}
		for _, name := range []string{"If-Match", "If-None-Match"} {
			h := http.Header{name: {list}, "If-Modified-Since": {date}, "If-Unmodified-Since": {date}}
			switch status := evaluate(h, p); status {
			case 0, http.StatusNotModified, http.StatusPreconditionFailed:
				if name == "If-Match" && status == 0 && !matches([]string{list}, etag, false) {
					t.Errorf("%q lets a change of %q go on", list, etag)
				}
			default:
				t.Errorf("status %d", status)
			}
		}
	})
}
