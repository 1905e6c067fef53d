package grants

import (
	"bytes"
	"errors"
	"testing"
)

const anAnnouncement = `{"audience":"spiffe://search.test/indexer","body":{"exporter":"fWCccjLmfupwkhoggYBPvp9QBz0C7ymLUOIboEUef_c","grants":["sha256:1322a359b4a2f25545576f9b6daac953dc9ef64b09fdc5ff80d3d9275db518fe"],"nonce":"GUpOlVGiPzH0mDNFvQR9Uul1oDL9EZVbnlcg1VUcDs4","policies":["sha256:f47f95d74b1777241458b00b845294e70d333ab9a6e00da2944e3c5a53aa9505"],"publisher":"spiffe://docs.test/publisher","requests":[{"actions":["discovery","refresh"],"purposes":["search.index"],"scope":{"prefixes":["https://docs.test/"],"type":"url-prefix"},"series":"site-eb8b9a6f1703dce2"}]},"envelope_version":"uzpif-oi-env/1","epoch":1}`

func TestPackingHalvesAnAnnouncement(t *testing.T) {
	packed, err := Pack([]byte(anAnnouncement))
	if err != nil {
		t.Fatal(err)
	}
	if 2*len(packed) > len(anAnnouncement) {
		t.Errorf("%d octets of %d", len(packed), len(anAnnouncement))
	}
	if raw, err := Unpack(packed, len(anAnnouncement)); err != nil || string(raw) != anAnnouncement {
		t.Errorf("%q, %v", raw, err)
	}
	for _, tt := range []struct {
		name   string
		packed []byte
		most   int
		want   error
	}{
		{"cut short", packed[:len(packed)-3], 1 << 20, ErrMalformed},
		{"something behind it", append(bytes.Clone(packed), 0), 1 << 20, ErrMalformed},
		{"no packing at all", []byte(anAnnouncement), 1 << 20, ErrMalformed},
		{"more than may be", packed, len(anAnnouncement) - 1, ErrOversize},
		{"nothing", nil, 1 << 20, ErrMalformed},
	} {
		if raw, err := Unpack(tt.packed, tt.most); !errors.Is(err, tt.want) || raw != nil {
			t.Errorf("%s: %d octets, %v; want %v", tt.name, len(raw), err, tt.want)
		}
	}
}

func FuzzUnpack(f *testing.F) {
	packed, err := Pack([]byte(anAnnouncement))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(packed)
	f.Add(bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, packed []byte) {
		const most = 1 << 16
		raw, err := Unpack(packed, most)
		if err != nil {
			return
		}
		if len(raw) > most {
			t.Fatalf("%d octets, more than asked for", len(raw))
		}
		again, err := Pack(raw)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := Unpack(again, most); err != nil || !bytes.Equal(back, raw) {
			t.Errorf("packed anew it is %q: %v", back, err)
		}
	})
}
