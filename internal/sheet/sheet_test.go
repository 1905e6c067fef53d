package sheet

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// luminance is that of WCAG 2, of a colour written #rrggbb.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(hex[1:], 16, 24)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for shift, weight := range map[int]float64{16: 0.2126, 8: 0.7152, 0: 0.0722} {
		c := float64(n>>shift&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestColoursCanBeReadInBothSchemes(t *testing.T) {
	light, dark, ok := strings.Cut(Base, "prefers-color-scheme: dark")
	if !ok {
		t.Fatal("there is no dark scheme")
	}
	dark, _, _ = strings.Cut(dark, "@media")
	for scheme, css := range map[string]string{"light": light, "dark": dark} {
		colour := make(map[string]string)
		for _, m := range regexp.MustCompile(`--(\w+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			colour[m[1]] = m[2]
		}
		for _, ink := range []string{"ink", "soft", "link", "good", "bad", "late"} {
			for _, ground := range []string{"paper", "card"} {
				if colour[ink] == "" || colour[ground] == "" {
					t.Fatalf("%s: no colour %s or %s", scheme, ink, ground)
				}
				a, b := luminance(t, colour[ink]), luminance(t, colour[ground])
				if ratio := (max(a, b) + 0.05) / (min(a, b) + 0.05); ratio < 4.5 {
					t.Errorf("%s: %s on %s has a contrast of %.2f, want 4.5", scheme, ink, ground, ratio)
				}
			}
		}
	}
}
