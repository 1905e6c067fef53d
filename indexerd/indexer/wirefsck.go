package indexer

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// answers checks the answers that were kept of a series: each is found by its
// batch, its receipt is signed, and its entries are in the log where it says.
func (s *seriesChecker) answers(ctx context.Context) error {
	lo := sidKey('B', s.rec.SID)
	for kv, err := range s.r.Scan(lo, durable.PrefixEnd(lo)) {
		if err != nil {
			return s.unreadable(ctx, "answers of "+s.rec.Series, err)
		}
		var a answeredBatch
		err := json.Unmarshal(kv.Value, &a)
		if err == nil {
			err = s.answer(kv.Key, &a)
		}
		s.report.Answers++
		if err != nil {
			s.find(findAnswer, a.First, fmt.Sprintf("answer to batch %s of %s", a.BatchID, s.rec.Series), "%v", err)
		}
	}
	return nil
}

func (s *seriesChecker) answer(key []byte, a *answeredBatch) error {
	back, err := s.r.Get(sidKey('b', s.rec.SID, a.BatchID[:]...))
	if err != nil || !bytes.Equal(back, key) {
		return errors.Join(errors.New("it is not found by its batch"), err)
	}
	w := new(oiv1.Committed)
	if err := proto.Unmarshal(a.Committed, w); err != nil {
		return err
	}
	var receipt translog.Receipt
	v := envelope.Verifier{Keys: s.card, Type: envelope.Receipt, Threshold: 1}
	if _, err := envelope.Authenticate(w.Receipt, &receipt, v); err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	if receipt.BatchID != a.BatchID || len(receipt.Entries) != len(w.Entries) || receipt.Checkpoint.Size != a.TreeSize {
		return errors.New("the receipt is of another answer")
	}
	for i, raw := range w.Entries {
		if want := receipt.Entries[i].Index; want != a.First+uint64(i) {
			return fmt.Errorf("the receipt says entry %d, the answer %d", want, a.First+uint64(i))
		}
		if err := s.inLog(raw, a.First+uint64(i)); err != nil {
			return fmt.Errorf("entry %d: %w", a.First+uint64(i), err)
		}
	}
	return nil
}

// inLog looks for an entry in the log that it names.
func (s *seriesChecker) inLog(raw []byte, index uint64) error {
	o, err := envelope.Parse(raw)
	if err != nil {
		return err
	}
	var e translog.Entry
	if err := o.DecodeBody(&e); err != nil {
		return err
	}
	for n, id := range s.logs {
		if id.Origin != e.LogOrigin {
			continue
		}
		got, err := s.r.Get(translog.RowKey{Kind: translog.RowEntry, Log: uint32(n), Number: index}.Bytes())
		if err == nil && !bytes.Equal(got, raw) {
			err = errors.New("the log has another one there")
		}
		return err
	}
	return fmt.Errorf("the store has no log %.80q", e.LogOrigin)
}
