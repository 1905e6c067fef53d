// Package inorder works on the values of a sequence in parallel and yields the
// results in the order of the sequence. What is ahead of the reader is bounded,
// and no goroutine outlives the loop: TestResultsComeInOrder and
// TestNothingIsLeftBehind show it.
package inorder

import (
	"iter"
	"sync"
)

// Map yields f of each value of seq, in order. At most ahead+2 values are in
// memory, each with a goroutine of its own that calls f. It stops at the first
// error of seq or of f, and yields it.
func Map[T, R any](seq iter.Seq2[T, error], ahead int, f func(T) (R, error)) iter.Seq2[R, error] {
	type result struct {
		value R
		err   error
	}
	return func(yield func(R, error) bool) {
		slots := make(chan chan result, max(ahead, 1))
		stop := make(chan struct{})
		var all sync.WaitGroup
		defer all.Wait()
		defer close(stop)
		all.Go(func() {
			defer close(slots)
			for v, err := range seq {
				slot := make(chan result, 1)
				if err != nil {
					slot <- result{err: err}
				} else {
					all.Go(func() {
						r, err := f(v)
						slot <- result{r, err}
					})
				}
				select {
				case slots <- slot:
				case <-stop:
					return
				}
				if err != nil {
					return
				}
			}
		})
		for slot := range slots {
			r := <-slot
			if !yield(r.value, r.err) || r.err != nil {
				return
			}
		}
	}
}
