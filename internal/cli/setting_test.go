package cli

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestSettingsOfAFileAreCommentedOutUnlessTheyAreSaid(t *testing.T) {
	s := Settings{
		{Key: "listen", Default: "a:1", Values: "HOST:PORT", Doc: "Where it listens."},
		{Key: "level", Default: `""`, Values: "a word", Live: true, Doc: strings.Repeat("Many words. ", 12)},
	}
	text := s.File("The head.", map[string]string{"listen": "b:2"})
	for _, want := range []string{"# The head.\n", "# Where it listens. HOST:PORT.\nlisten: b:2\n", "# level: \"\"\n", "A word.\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if len(line) > lineWidth+1 {
			t.Errorf("%d octets: %s", len(line), line)
		}
	}
	if got := s.Live(); !slices.Equal(got, []string{"level"}) {
		t.Errorf("Live = %q", got)
	}
	if got := s.Defaults()["level"]; got != "" {
		t.Errorf("the default is %q", got)
	}
}

func TestASettingWithoutItsWordsIsFound(t *testing.T) {
	good := Setting{Key: "a", Default: "1", Values: "a number", Doc: "What it does."}
	for _, tt := range []struct {
		name string
		s    Settings
		want string
	}{
		{"all is there", Settings{good}, ""},
		{"a key that is not documented", Settings{}, "a is not documented"},
		{"a key that does not exist", Settings{good, {Key: "b", Default: "1", Values: "a number", Doc: "It."}}, "b is no key"},
		{"one of them twice", Settings{good, good}, "twice"},
		{"no sentence", Settings{{Key: "a", Default: "1", Values: "a number"}}, "no sentence"},
		{"no default", Settings{{Key: "a", Values: "a number", Doc: "It."}}, "no default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := strings.Join(tt.s.Faults([]string{"a"}), "; ")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("Faults = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBoundsHold(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		good bool
	}{
		{"the least", Within("k", 1, 1, 3), true},
		{"the most", Within("k", time.Hour, time.Second, time.Hour), true},
		{"too little", Within("k", 0, 1, 3), false},
		{"too much", Within("k", 4, 1, 3), false},
		{"no number", Within("k", math.NaN(), 0, 1), false},
		{"one of the words", OneOf("k", "b", "a", "b"), true},
		{"another word", OneOf("k", "c", "a", "b"), false},
		{"off", CheckAddressOrOff("k", "off"), true},
		{"an address without a port", CheckAddressOrOff("k", "localhost"), false},
		{"a certificate without its key", CheckCertificatePair("c", ""), false},
	} {
		if (tt.err == nil) != tt.good {
			t.Errorf("%s: %v", tt.name, tt.err)
		}
	}
	many := With(Config, errors.Join(errors.New("a"), nil, errors.Join(errors.New("b"), errors.New("c"))))
	if got := len(Faults(many)); got != 3 || len(Faults(nil)) != 0 {
		t.Errorf("%d faults, want 3", got)
	}
}
