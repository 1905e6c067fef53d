package fetch

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// ErrForbiddenAddress says that a URL leads to an address that is not public,
// and its origin is not allowed.
var ErrForbiddenAddress = errors.New("the address is not public")

// ErrRedirect says that a redirect cannot be followed.
var ErrRedirect = errors.New("unusable redirect")

// ErrTooLarge says that a body goes beyond a limit.
var ErrTooLarge = errors.New("the body is too large")

// ErrCoding says that a body's content coding is unknown or broken.
var ErrCoding = errors.New("unusable content coding")

// A StatusError is an answer that is neither the resource nor a redirect.
type StatusError struct {
	Code int
	// RetryAfter is how long the server asks to be left alone; zero if it
	// does not say.
	RetryAfter time.Duration
}

func (e *StatusError) Error() string {
	if e.RetryAfter > 0 {
		return fmt.Sprintf("the server answers %d %s, and asks to wait %v", e.Code, http.StatusText(e.Code), e.RetryAfter)
	}
	return fmt.Sprintf("the server answers %d %s", e.Code, http.StatusText(e.Code))
}

// statusError notes what an answer says about later requests to its origin.
func (c *Client) statusError(u *url.URL, r *http.Response) *StatusError {
	e := &StatusError{Code: r.StatusCode}
	if r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable {
		e.RetryAfter = retryAfter(r.Header, c.config.Now())
	}
	return e
}

// maxRetryAfter bounds what a server may ask for: nobody is locked out for ever.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads Retry-After in both its forms; zero if it is absent or past.
func retryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if n, ok := seconds(value); ok {
		return n
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), maxRetryAfter)
	}
	return 0
}

// exhausted reads the RateLimit fields in both their forms: how long to wait
// if no request is left.
func exhausted(h http.Header) time.Duration {
	remaining, reset := h.Get("RateLimit-Remaining"), h.Get("RateLimit-Reset")
	if remaining == "" {
		for parameter := range strings.SplitSeq(h.Get("RateLimit"), ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
			switch name {
			case "r":
				remaining = value
			case "t":
				reset = value
			}
		}
	}
	if strings.TrimSpace(remaining) != "0" {
		return 0
	}
	wait, _ := seconds(strings.TrimSpace(reset))
	return wait
}

// seconds reads a number of seconds, and cuts it down to maxRetryAfter.
func seconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil || n > uint64(maxRetryAfter/time.Second) {
		return maxRetryAfter, true
	}
	return time.Duration(n) * time.Second, true
}
