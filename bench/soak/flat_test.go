package main

import (
	"io"
	"strings"
	"testing"
)

func TestGrowthIsTold(t *testing.T) {
	still := func(int) sample { return sample{200 << 20, 100, 50} }
	for _, tt := range []struct {
		name string
		at   func(i int) sample
		n    int
		want string // part of the error; "" for none
	}{
		{"nothing moves", still, 60, ""},
		{"caches fill at the beginning", func(i int) sample { return sample{int64(min(i, 15)) * 20 << 20, 100, 50} }, 60, ""},
		{"it goes up and down", func(i int) sample { return sample{int64(200+i%2*40) << 20, int64(100 + i%3), 50} }, 60, ""},
		{"memory grows", func(i int) sample { return sample{int64(200+3*i) << 20, 100, 50} }, 60, "memory grows"},
		{"goroutines grow", func(i int) sample { return sample{200 << 20, int64(100 + 2*i), 50} }, 60, "goroutines grow"},
		{"descriptors grow", func(i int) sample { return sample{200 << 20, 100, int64(50 + i)} }, 60, "descriptors grow"},
		{"too little was seen", still, 5, "too few"},
		{"nothing was seen", still, 0, "nothing was looked at"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var all table
			for i := range tt.n {
				all.add("indexer", tt.at(i))
			}
			err := all.judge(io.Discard)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(strings.ReplaceAll(err.Error(), "grows", "grow"), strings.ReplaceAll(tt.want, "grows", "grow")) {
				t.Errorf("judge = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFlagsHaveBounds(t *testing.T) {
	for _, args := range [][]string{{"--for", "1s"}, {"--publishers", "0"}, {"--pages", "1"}, {"--every", "1ms"}, {"more"}} {
		if _, err := parse(args, io.Discard); err == nil {
			t.Errorf("%q is taken", args)
		}
	}
	if _, err := parse([]string{"--for", "10m", "--publishers", "2"}, io.Discard); err != nil {
		t.Error(err)
	}
}
