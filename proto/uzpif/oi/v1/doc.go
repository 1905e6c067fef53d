// Package oiv1 is the generated Go code of the session's messages, and nothing
// else. Signed artefacts travel in it as their exact octets; what they mean is
// decided in the packages that open them.
package oiv1
