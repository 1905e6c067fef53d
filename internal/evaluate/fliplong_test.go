//go:build long

package evaluate_test

// randomChanges is how many changes of each kind of evidence are tried.
const randomChanges = 10_000
