package content_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/content"
)

// FuzzParseStamp shows that a Stamp has one form, and that a Stamp which is at
// rest stays so.
func FuzzParseStamp(f *testing.F) {
	f.Add(content.Stamp{Size: 1, Modified: 2, Changed: 3, Device: 4, Inode: 5}.Append(nil))
	f.Add(content.Stamp{Size: -1, Modified: 1 << 62, Changed: -1 << 63, Inode: 1<<64 - 1}.Append(nil))
	f.Add(make([]byte, content.StampSize))
	f.Add(make([]byte, content.StampSize-1))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := content.ParseStamp(b)
		if (err == nil) != (len(b) == content.StampSize) {
			t.Fatalf("%d octets: %v", len(b), err)
		}
		if err != nil {
			if s != (content.Stamp{}) {
				t.Errorf("beside an error: %+v", s)
			}
			return
		}
		if again := s.Append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x is read and written as %x", b, again)
		}
		last := time.Unix(0, max(s.Modified, s.Changed))
		if s.AtRest(last.Add(content.Rest)) {
			t.Errorf("%+v is at rest %s after its last change", s, content.Rest)
		}
		if later := last.Add(content.Rest + 1); s.AtRest(later) != (s != content.Stamp{}) {
			t.Errorf("%+v at %s: at rest is %v", s, later, s.AtRest(later))
		}
	})
}
