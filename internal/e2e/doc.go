// Package e2e runs the real programs against one another: each script below
// testdata/e2e is a story that an operator lives through, told in commands.
// TestScripts builds the programs and runs every script.
package e2e
