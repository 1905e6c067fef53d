package publisher

import (
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
	"github.com/uzpif-oi/uzpif-oi/internal/durable"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// answer gives a stored answer as it was evaluated.
func (a *storedAnswer) answer() (evaluate.Answer, error) {
	var c oiv1.Committed
	if err := proto.Unmarshal(a.Committed, &c); err != nil {
		return evaluate.Answer{}, fmt.Errorf("receipt %s: %w", a.Receipt, err)
	}
	return answerOf(&oiv1.BatchResult{Committed: &c})
}

// maxAlarms is how many answers the folder alarms keeps.
const maxAlarms = 1000

// keepBadAnswer writes an answer that did not hold to the folder alarms, with
// the object that it answers, for whoever has to clear the matter up.
//
// The same answer is kept once, and so many different ones at most: an indexer
// that goes on must not fill the disk.
func (p *Publisher) keepBadAnswer(rel *Relationship, asked []byte, answer proto.Message) error {
	exact, err := (proto.MarshalOptions{Deterministic: true}).Marshal(answer)
	if err != nil {
		return err
	}
	id := envelope.TaggedHash("alarm", []byte(rel.Series), []byte{0}, asked, []byte{0}, exact)
	path := filepath.Join(p.dir, "alarms", hex.EncodeToString(id[:16])+".json")
	kept, err := filepath.Glob(filepath.Join(p.dir, "alarms", "*.json"))
	if err != nil || len(kept) >= maxAlarms || slices.Contains(kept, path) {
		return err
	}
	if err := p.keepContradictions(rel.Indexer, signedIn(answer)); err != nil {
		p.log.Error("look for an equivocation", "indexer", rel.Indexer, "error", err)
	}
	wire, err := protojson.Marshal(answer)
	if err != nil {
		return err
	}
	b, err := json.Marshal(map[string]string{
		"series": rel.Series, "indexer": string(rel.Indexer), "asked": string(asked), "answer": string(wire),
		"received_at": envelope.At(p.now()).String(),
	}, json.Deterministic(true))
	if err != nil {
		return err
	}
	return durable.WriteFile(path, b, 0o600)
}

// expectedOf is what a stored answer is evaluated against, from the rows and
// files that the publisher keeps.
func (p *Publisher) expectedOf(rel *Relationship, a *storedAnswer, now time.Time) (evaluate.Expected, error) {
	peer, ok := p.trust.Lookup(a.Indexer)
	if !ok {
		return evaluate.Expected{}, &Refused{Reason: grants.ErrUnknownPeer, Detail: string(a.Indexer)}
	}
	manifest, m, err := manifestOf(a)
	if err != nil {
		return evaluate.Expected{}, err
	}
	pair, err := p.pairOf(rel, m.GrantID)
	if err != nil {
		return evaluate.Expected{}, err
	}
	ans, err := a.answer()
	if err != nil {
		return evaluate.Expected{}, err
	}
	log, err := logOf(peer, ans.Note)
	if err != nil {
		return evaluate.Expected{}, err
	}
	e := expected(p.local.Name(), peer, log, p.trust.Known(), rel, pair, manifest, m)
	e.Now = now
	e.Sets, err = p.storedSets(a)
	return e, err
}
