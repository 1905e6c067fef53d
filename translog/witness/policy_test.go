package witness_test

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/uzpif-oi/uzpif-oi/translog/witness"
	"github.com/uzpif-oi/uzpif-oi/translog/witness/witnesstest"
)

// failing is what testing.TB and rapid.T share.
type failing interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

// keyOf is the key of a witness by number.
func keyOf(t failing, n int) (witness.Key, ed25519.PrivateKey) {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = byte(n)
	private := ed25519.NewKeyFromSeed(seed)
	k, err := witness.NewKey(fmt.Sprintf("w%d.example", n), private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return k, private
}

// someWitnesses is the lines of a policy that name witnesses 1 to n as W1 to Wn.
func someWitnesses(t failing, n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		k, _ := keyOf(t, i)
		fmt.Fprintf(&b, "witness W%d %s\n", i, k)
	}
	return b.String()
}

func policyOf(t failing, file string) *witness.Policy {
	t.Helper()
	p, err := witness.ParsePolicy([]byte(file))
	if err != nil {
		t.Fatalf("%v in\n%s", err, file)
	}
	return p
}

// cosignedBy is one cosignature of each of these witnesses.
func cosignedBy(t failing, numbers ...int) []witness.Cosignature {
	var all []witness.Cosignature
	for _, n := range numbers {
		k, _ := keyOf(t, n)
		all = append(all, witness.Cosignature{Key: k})
	}
	return all
}

func TestAQuorumIsWhatThePolicySays(t *testing.T) {
	six := someWitnesses(t, 6)
	two := "group X 2 W1 W2 W3\ngroup Y any W4 W5 W6\ngroup both all X Y\nquorum both\n"
	for _, tt := range []struct {
		name, file string
		by         []int
		met        bool
	}{
		{"a single witness that cosigned", six + "quorum W2\n", []int{2}, true},
		{"a single witness that did not", six + "quorum W2\n", []int{1, 3, 4, 5, 6}, false},
		{"nobody is asked for", six + "quorum none\n", nil, true},
		{"two of three and one of three", six + two, []int{1, 3, 5}, true},
		{"only one of the first three", six + two, []int{1, 4, 5, 6}, false},
		{"none of the second three", six + two, []int{1, 2, 3}, false},
		{"all of them but one, where all are asked for", six + "group G all W1 W2 W3 W4 W5 W6\nquorum G\n", []int{1, 2, 3, 4, 5}, false},
		{"all of them", six + "group G all W1 W2 W3 W4 W5 W6\nquorum G\n", []int{6, 5, 4, 3, 2, 1}, true},
		{"one twice is one", six + "group G 2 W1 W2\nquorum G\n", []int{1, 1}, false},
		{"strangers do not count", six + "group G any W1 W2\nquorum G\n", []int{7, 8}, false},
		{"comments, tabs and empty lines", "# who\n\n \t# what\n" + six + "\tquorum\tW1 \n", []int{1}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := policyOf(t, tt.file).Met(cosignedBy(t, tt.by...)); got != tt.met {
				t.Errorf("Met = %v, want %v", got, tt.met)
			}
		})
	}
	p := policyOf(t, six+two)
	if p.Counts(0) != true || policyOf(t, six+"quorum W2\n").Counts(0) {
		t.Error("who counts is not who stands in the quorum")
	}
	flat, err := p.WithQuorum(4)
	if err != nil || flat.Met(cosignedBy(t, 1, 2, 3)) || !flat.Met(cosignedBy(t, 1, 2, 3, 6)) {
		t.Errorf("four of six: %v", err)
	}
	for _, k := range []int{0, -1, 7} {
		if _, err := p.WithQuorum(k); err == nil {
			t.Errorf("a quorum of %d of six", k)
		}
	}
}

func TestPoliciesOfAnotherFormAreRefused(t *testing.T) {
	three := someWitnesses(t, 3)
	k1, private := keyOf(t, 1)
	renamed, err := witness.NewKey("other.example", private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, file string }{
		{"nothing", ""},
		{"no quorum", three},
		{"two quorums", three + "quorum W1\nquorum W2\n"},
		{"a quorum of somebody unknown", three + "quorum W9\n"},
		{"a quorum above its witness", "quorum W1\n" + three},
		{"an unknown word", three + "witnesses W1\nquorum W1\n"},
		{"a name twice", three + "group W1 any W2\nquorum W1\n"},
		{"the name none", three + "group none any W2\nquorum W1\n"},
		{"none as a member", three + "group G any none\nquorum G\n"},
		{"a group of none", three + "group G any\nquorum G\n"},
		{"a member twice in a group", three + "group G 2 W1 W1\nquorum G\n"},
		{"a member of two groups", three + "group G any W1 W2\ngroup H any W1 W3\nquorum G\n"},
		{"a group of itself", three + "group G any G\nquorum G\n"},
		{"a threshold of 0", three + "group G 0 W1\nquorum G\n"},
		{"a threshold of two in one", three + "group G 2 W1\nquorum G\n"},
		{"a threshold with a plus", three + "group G +1 W1\nquorum G\n"},
		{"a threshold with a zero in front", three + "group G 01 W1\nquorum G\n"},
		{"one key under two names", three + "witness again " + renamed.String() + "\nquorum W1\n"},
		{"one witness twice", three + "witness again " + k1.String() + "\nquorum W1\n"},
		{"a URL that is none", "witness W " + k1.String() + " ftp://w.example\nquorum W\n"},
		{"a URL with a password", "witness W " + k1.String() + " https://a:b@w.example\nquorum W\n"},
		{"a URL with a query", "witness W " + k1.String() + " https://w.example/?a\nquorum W\n"},
		{"a witness without a key", "witness W\nquorum W\n"},
		{"too many words", "witness W " + k1.String() + " https://w.example more\nquorum W\n"},
		{"a log's key", "witness W w+1d3ad4b5+AZ0qDZ2PV3ZqBXpVkUI5m1PuEmWTYLcUyGvJc8jbqFdQ\nquorum W\n"},
		{"a log that is none", three + "log example.com\nquorum W1\n"},
		{"carriage returns", strings.ReplaceAll(three+"quorum W1\n", "\n", "\r\n")},
		{"a control character", three + "# \x1b[2J\nquorum W1\n"},
		{"more witnesses than are allowed", someWitnesses(t, 33) + "quorum W1\n"},
		{"a file that is too long", three + "quorum W1\n" + strings.Repeat("#\n", witness.MaxPolicy)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if p, err := witness.ParsePolicy([]byte(tt.file)); err == nil {
				t.Errorf("read as %+v", p)
			}
		})
	}
	policyOf(t, someWitnesses(t, 32)+"quorum W32\n")
}

func TestAPolicyIsForTheLogsItNames(t *testing.T) {
	const one = "log.example+87c4c5b0+AW8Ls7zEQIFnnFBnwFEePn4lYfK0VzFQ8PaL1hVnVbfT"
	any := policyOf(t, someWitnesses(t, 1)+"quorum W1\n")
	if !any.Covers(one) {
		t.Error("a policy without logs is for every log")
	}
	l := witnesstest.NewLog(t, 0, "")
	own, err := witness.ParsePolicy([]byte("log " + l.VKey + "\n" + someWitnesses(t, 1) + "quorum W1\n"))
	if err != nil || !own.Covers(l.VKey) || own.Covers(one) {
		t.Errorf("a policy for one log: %v", err)
	}
}

// TestAWitnessIsNeverCountedTwice draws policies, and takes one cosignature
// away from a quorum that needs every one it has.
func TestAWitnessIsNeverCountedTwice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "witnesses")
		k := rapid.IntRange(1, n).Draw(t, "threshold")
		file := someWitnesses(t, n) + fmt.Sprintf("group G %d", k)
		for i := range n {
			file += fmt.Sprintf(" W%d", i+1)
		}
		p := policyOf(t, file+"\nquorum G\n")
		order := rapid.Permutation(numbers(n)).Draw(t, "order")
		if !p.Met(cosignedBy(t, order[:k]...)) || p.Met(cosignedBy(t, append(order[:k-1:k-1], order[:k-1]...)...)) {
			t.Fatalf("%d of %d", k, n)
		}
	})
}

func numbers(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func FuzzKey(f *testing.F) {
	k, _ := keyOf(f, 1)
	f.Add(k.String())
	f.Add("w+00000000+BA==")
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := witness.ParseKey(s); err == nil && k.String() != s {
			t.Errorf("%q reads as %q", s, k)
		}
	})
}

// FuzzPolicy: no file hangs or breaks the parser, and what it reads can be met
// by all of its witnesses together.
func FuzzPolicy(f *testing.F) {
	f.Add(someWitnesses(f, 3) + "group X 2 W1 W2\ngroup Y all X W3\nquorum Y\n")
	f.Add("quorum none\n")
	f.Fuzz(func(t *testing.T, file string) {
		p, err := witness.ParsePolicy([]byte(file))
		if err != nil {
			return
		}
		var all []witness.Cosignature
		for _, w := range p.Witnesses {
			all = append(all, witness.Cosignature{Key: w.Key, At: time.Unix(0, 0)})
		}
		if !p.Met(all) || !p.None() && p.Met(nil) {
			t.Errorf("a quorum that all do not meet, or none do, in\n%s", file)
		}
	})
}
