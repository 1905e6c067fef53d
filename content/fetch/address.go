package fetch

import (
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// refuseNonPublic stands between the look-up of a name and the dial: it sees
// the very address that would be connected to.
func refuseNonPublic(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: %.80q", ErrForbiddenAddress, address)
	}
	if !isPublic(at.Addr()) {
		return fmt.Errorf("%w: %s; if it is meant, name its origin as allowed", ErrForbiddenAddress, at.Addr())
	}
	return nil
}

// isPublic reports whether an address is of the public Internet's unicast
// space, and embeds no other address that a gateway would take out of it.
func isPublic(a netip.Addr) bool {
	a = a.WithZone("") // no prefix contains an address with a zone
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || a.IsUnspecified() {
		return false
	}
	return !slices.ContainsFunc(special(), func(p netip.Prefix) bool { return p.Contains(a) })
}

// special is what the registries of special addresses (RFC 6890) hold beyond
// what netip knows.
func special() []netip.Prefix {
	return []netip.Prefix{
		prefix4(0, 0, 0, 0, 8),       // this network
		prefix4(100, 64, 0, 0, 10),   // shared by carriers (CGNAT)
		prefix4(192, 0, 0, 0, 24),    // protocol assignments
		prefix4(192, 0, 2, 0, 24),    // documentation
		prefix4(192, 88, 99, 0, 24),  // 6to4 relays
		prefix4(198, 18, 0, 0, 15),   // benchmarks
		prefix4(198, 51, 100, 0, 24), // documentation
		prefix4(203, 0, 113, 0, 24),  // documentation
		prefix4(240, 0, 0, 0, 4),     // reserved, and broadcast
		prefix6(0, 0, 8),             // IPv4-mapped and -compatible; NAT64
		prefix6(0x0064, 0xff9b, 32),  // NAT64
		prefix6(0x0100, 0, 8),        // discard
		prefix6(0x2001, 0, 23),       // Teredo and protocol assignments
		prefix6(0x2001, 0x0db8, 32),  // documentation
		prefix6(0x2002, 0, 16),       // 6to4
		prefix6(0x3fff, 0, 20),       // documentation
		prefix6(0x5f00, 0, 16),       // segment routing
		prefix6(0xfec0, 0, 10),       // site-local
	}
}

func prefix4(a, b, c, d byte, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{a, b, c, d}), bits)
}

func prefix6(a, b uint16, bits int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{byte(a >> 8), byte(a), byte(b >> 8), byte(b)}), bits)
}
