package inorder

import (
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errTest = errors.New("made up")

// count yields 0 to n-1, and then err if there is one.
func count(n int, err error) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for i := range n {
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

func TestResultsComeInOrder(t *testing.T) {
	var inside, most atomic.Int64
	next := 0
	for v, err := range Map(count(200, nil), 4, func(i int) (int, error) {
		n := inside.Add(1)
		defer inside.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
		return i * i, nil
	}) {
		if err != nil || v != next*next {
			t.Fatalf("result %d is %d, %v", next, v, err)
		}
		next++
	}
	if next != 200 || most.Load() > 6 {
		t.Errorf("%d results, %d at once; want 200, at most 6", next, most.Load())
	}
}

func TestTheFirstErrorIsTheLastResult(t *testing.T) {
	for _, tt := range []struct {
		name string
		seq  iter.Seq2[int, error]
		f    func(int) (int, error)
		want []int
	}{
		{"of the sequence", count(3, errTest), func(i int) (int, error) { return i, nil }, []int{0, 1, 2}},
		{"of the work", count(9, nil), func(i int) (int, error) {
			if i > 1 {
				return 0, errTest
			}
			return i, nil
		}, []int{0, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			var failed error
			for v, err := range Map(tt.seq, 2, tt.f) {
				if err != nil {
					failed = errors.Join(failed, err)
					continue
				}
				got = append(got, v)
			}
			if !slices.Equal(got, tt.want) || !errors.Is(failed, errTest) {
				t.Errorf("%v, %v, want %v", got, failed, tt.want)
			}
		})
	}
}

// TestNothingIsLeftBehind leaves the loop early; goleak looks at the end.
func TestNothingIsLeftBehind(t *testing.T) {
	var ended atomic.Bool
	seq := func(yield func(int, error) bool) {
		defer ended.Store(true)
		for i := 0; yield(i, nil); i++ {
		}
	}
	for v := range Map(seq, 3, func(i int) (int, error) { return i, nil }) {
		if v == 5 {
			break
		}
	}
	if !ended.Load() {
		t.Error("the sequence still runs")
	}
}
