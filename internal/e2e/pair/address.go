package pair

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// lastOwn is the last port that OwnAddress has looked at.
var lastOwn atomic.Int32

// OwnAddress is a free address for a daemon that is to be started there again: below
// those that the system gives to whoever connects, so that nobody has it meanwhile.
func OwnAddress() (string, error) {
	const first, ports = 12_000, 20_000
	lastOwn.CompareAndSwap(0, rand.Int32N(ports)+1)
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", first+lastOwn.Add(1)%ports)
		if l, err := net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", errors.New("no port is free")
}
