// Package witnesses has the log cosigned by a witness that others wrote. It is
// a module of its own, since that witness needs a newer edition of the tree
// library than the programs are built with.
package witnesses
