// Package rbt is Rabit Burrow Traversal (draft-rabit-rbt-02): the documents,
// read and written. A manifest (.burrow.json) lists the resources of a burrow,
// a registry (.warren.json) lists burrows, and two well-known documents lead to
// them.
package rbt
