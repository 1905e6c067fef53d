//go:build long

package thirdparty

import "testing"

// largeSizes are those around a third level of tiles.
var largeSizes = []int64{65535, 65536, 65537, 66000}

func TestTesseraVerifiesALargeLog(t *testing.T) { verifyByTessera(t, largeSizes) }

func TestTorchwoodVerifiesALargeLog(t *testing.T) { verifyByTorchwood(t, largeSizes) }

func TestXModVerifiesALargeLog(t *testing.T) { verifyByXMod(t, largeSizes, 997) }
