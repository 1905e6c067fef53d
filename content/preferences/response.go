package preferences

import (
	"net/http"
	"strings"
)

// OfResponse reads what the header of an answer says about the use of the page.
// Those that cannot be read are told in broken, and state nothing.
func OfResponse(h http.Header, place string) (s Statement, broken []string) {
	for _, name := range []string{"Content-Usage", "Content-Signal", "X-Robots-Tag"} {
		values := h.Values(name)
		if name == "Content-Usage" && len(values) > 0 { // one dictionary
			values = []string{strings.Join(values, ", ")}
		}
		for _, value := range values {
			if err := s.Field(name, value, place); err != nil {
				broken = append(broken, err.Error())
			}
		}
	}
	return s, broken
}
