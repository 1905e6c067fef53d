// Package plural puts numbers of things into words.
package plural

import "fmt"

// Of is the word for n of a thing.
func Of[N ~int | ~int64 | ~uint64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Count is a number of things in words.
func Count[N ~int | ~int64 | ~uint64](n N, one, many string) string {
	return fmt.Sprintf("%d %s", n, Of(n, one, many))
}
