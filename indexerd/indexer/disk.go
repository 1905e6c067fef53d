package indexer

import (
	"errors"

	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// When somebody may come back who was turned away, in milliseconds.
const (
	retryOverload = 1000
	retryFull     = 5000
)

// exhausted is the refusal of what there is no room for now, with the time to
// come back after; nil for any other error. It says no more than that.
func exhausted(err error) *refusal {
	var r *refusal
	switch {
	case errors.Is(err, translog.ErrOverloaded):
		return &refusal{reason: grants.ErrExhausted, detail: "too much is waiting", retryMS: retryOverload}
	case errors.Is(err, durable.ErrFull):
		return &refusal{reason: grants.ErrExhausted, detail: "the disk is nearly full", retryMS: retryFull}
	case errors.Is(err, translog.ErrClock):
		return &refusal{reason: grants.ErrExhausted, detail: "the indexer's clock is wrong, and it signs nothing until that is set right", retryMS: retryFull}
	case errors.As(err, &r) && r.reason == grants.ErrExhausted:
		return r
	}
	return nil
}

// Weight is what a batch holds while it waits for the log.
func (in *ingest) Weight() int64 {
	const perItem = 400
	return int64(len(in.frame)+len(in.sealed)) + perItem*int64(len(in.items))
}

// A DiskStatus is how the indexer's disk does.
type DiskStatus struct {
	FreeBytes    uint64 `json:"free_bytes"`
	BallastBytes int64  `json:"ballast_bytes"` // held back for the next full disk
	ReadOnly     bool   `json:"read_only"`     // batches, rebinds and new grants are refused
	Reason       string `json:"reason,omitzero"`
	Stalls       uint64 `json:"stalls"` // writes that took longer than disk_stall
}

func (x *Indexer) diskStatus() DiskStatus {
	d := x.store.Disk()
	s := DiskStatus{FreeBytes: d.Free, BallastBytes: d.Ballast, ReadOnly: d.Full != nil, Stalls: d.Stalls}
	if err := errors.Join(d.Full, d.Stalled); err != nil {
		s.Reason = err.Error()
	}
	return s
}

// Ready is nil while the indexer takes batches, or says why it does not. It
// does not ask a disk that does not answer.
func (x *Indexer) Ready() error {
	d := x.store.Disk()
	if err := errors.Join(d.Stalled, d.Full); err != nil {
		return err
	}
	_, err := x.Status()
	return err
}
