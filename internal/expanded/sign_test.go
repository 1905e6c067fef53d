package expanded_test

import (
	"crypto/ed25519"
	"testing"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/internal/expanded"
)

// TestSignaturesAreThoseOfTheStandardLibrary: the same octets for the same key and
// message, however many there are.
func TestSignaturesAreThoseOfTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := ed25519.NewKeyFromSeed(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed"))
		messages := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 300), 0, 2*expanded.Most+2).Draw(t, "messages")
		sigs := make([][ed25519.SignatureSize]byte, len(messages))
		expanded.NewPrivateKey(key).Sign(sigs, messages)
		for i, m := range messages {
			if want := ed25519.Sign(key, m); string(want) != string(sigs[i][:]) {
				t.Fatalf("signature %d of %d is %x, want %x", i, len(messages), sigs[i], want)
			}
		}
	})
}

func BenchmarkSign(b *testing.B) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	messages := make([][]byte, expanded.Most)
	for i := range messages {
		messages[i] = make([]byte, 1320)
	}
	sigs := make([][ed25519.SignatureSize]byte, len(messages))
	b.Run("together", func(b *testing.B) {
		s := expanded.NewPrivateKey(key)
		for b.Loop() {
			s.Sign(sigs, messages)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(messages)), "ns/signature")
	})
	b.Run("one by one", func(b *testing.B) {
		for b.Loop() {
			for i, m := range messages {
				copy(sigs[i][:], ed25519.Sign(key, m))
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(messages)), "ns/signature")
	})
}
