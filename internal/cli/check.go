package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// MaxMiB bounds settings that are in MiB.
const MaxMiB = 1 << 20

// Within refuses a value out of its bounds, NaN among them.
func Within[T cmp.Ordered](key string, v, least, most T) error {
	if !(v >= least && v <= most) {
		return fmt.Errorf("%s: %v, want %v to %v", key, v, least, most)
	}
	return nil
}

// OneOf refuses a value that is none of the words.
func OneOf(key, v string, words ...string) error {
	if !slices.Contains(words, v) {
		return fmt.Errorf("%s: %.40q, want %s", key, v, strings.Join(words, " or "))
	}
	return nil
}

// CheckAddress refuses what is no host:port.
func CheckAddress(key, addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// CheckAddressOrOff is CheckAddress of one that may be off.
func CheckAddressOrOff(key, addr string) error {
	if addr == "off" {
		return nil
	}
	return CheckAddress(key, addr)
}

// CheckCertificatePair refuses one of the two settings alone.
func CheckCertificatePair(certificate, key string) error {
	if (certificate == "") != (key == "") {
		return errors.New("tls_certificate and tls_key go together")
	}
	return nil
}

// Faults takes apart what errors.Join has put together.
func Faults(err error) []error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) && e == err {
		return Faults(e.Err)
	}
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, one := range many.Unwrap() {
			all = append(all, Faults(one)...)
		}
		return all
	}
	return []error{err}
}
