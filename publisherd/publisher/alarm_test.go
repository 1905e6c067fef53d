package publisher

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestWordsOfAnotherSideAreOneLine(t *testing.T) {
	for _, tt := range []struct {
		name, words, want string
	}{
		{"plain words", "no such page", "no such page"},
		{"errors that were joined", fmt.Sprint(errors.Join(errors.New("the log: timeout"), errors.New("close: reset"))), "the log: timeout; close: reset"},
		{"lines of another system", "\r\none\r\n\r\ntwo\r\n", "one; two"},
		{"control characters", "a\x1b[31mb\u202ec", "a?[31mb?c"},
		{"octets that are no text", "a\xffb", "a?b"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := clean(tt.words); got != tt.want {
				t.Errorf("clean = %q, want %q", got, tt.want)
			}
		})
	}
	for _, long := range []string{strings.Repeat("é", maxDetail), strings.Repeat("x\n", maxDetail)} {
		if got := clean(long); len(got) > maxDetail {
			t.Errorf("%d octets of %d are left", len(got), len(long))
		}
	}
}
