package publisher

import (
	"context"
	"errors"

	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// Content flows under credits that the indexer gives: each batch begins with what
// Welcome says, and a Credit adds to it until the batch is answered
// (TestContentWaitsForCredit). An indexer that has answered already gets no more of
// the batch (TestARefusedBatchIsNotSentAnyFurther).
const (
	// leastCredit is what an indexer has to let each batch begin with, in octets.
	leastCredit = 1024
	// mostCredit bounds all that may be given for one batch.
	mostCredit = 1 << 30
)

// mostChunk is the largest chunk that is sent, in octets. On a line of 16 KiB a second,
// the slowest that an indexer bears with, one takes 16 seconds: until a frame has come
// whole nothing is heard of this side, and who says nothing for 42 is given up
// (TestASlowLineIsNoSilence).
const mostChunk = 256 << 10

func (s *session) chunkSize() int { return int(min(s.welcome.Limits.ChunkBytes, mostChunk)) }

// errAnswered ends the sending of a batch that has its answer already.
var errAnswered = errors.New("the batch is answered already")

// beginBatch forgets what is left of the credit of the batch before.
func (s *session) beginBatch() {
	s.credit, s.early = s.welcome.Limits.InitialCredit, nil
}

// credited adds what the indexer gives.
func (s *session) credited(c *oiv1.Credit) error {
	if c.Octets == 0 || c.Octets > mostCredit-min(s.credit, mostCredit) {
		return s.violation("a credit of %d octets on top of %d", c.Octets, s.credit)
	}
	s.credit += c.Octets
	return nil
}

// sendChunks sends data in chunks, as far as the credit goes; the last is marked
// if last is set. It waits for credit as long as for an answer, and stops with
// errAnswered when it gets one.
func (s *session) sendChunks(ctx context.Context, data []byte, last bool) error {
	size := uint64(s.chunkSize())
	for len(data) > 0 {
		if err := s.awaitCredit(ctx); err != nil {
			return err
		}
		n := min(size, uint64(len(data)), s.credit)
		c := &oiv1.Chunk{Data: data[:n], Last: last && n == uint64(len(data))}
		if err := s.send(ctx, &oiv1.PublisherFrame{Frame: &oiv1.PublisherFrame_Chunk{Chunk: c}}); err != nil {
			return err
		}
		s.credit -= n
		data = data[n:]
	}
	return nil
}

// awaitCredit waits until something may be sent.
func (s *session) awaitCredit(ctx context.Context) error {
	for s.credit == 0 {
		f, err := s.next(ctx)
		switch {
		case err != nil:
			return err
		case f.GetCredit() != nil:
			if err := s.credited(f.GetCredit()); err != nil {
				return err
			}
		case f.GetBatchResult() != nil:
			s.early = f.GetBatchResult()
			return errAnswered
		default:
			return s.violation("neither credit nor an answer, in the middle of a batch")
		}
	}
	return nil
}

// answerFrame is the answer to the batch under way.
func (s *session) answerFrame(ctx context.Context) (*oiv1.BatchResult, error) {
	if r := s.early; r != nil {
		s.early = nil
		return r, nil
	}
	for {
		f, err := s.next(ctx)
		if err != nil {
			return nil, err
		}
		if f.GetCredit() == nil {
			return f.GetBatchResult(), nil
		}
		if err := s.credited(f.GetCredit()); err != nil {
			return nil, err
		}
	}
}
