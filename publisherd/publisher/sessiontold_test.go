package publisher

import (
	"testing"
	"time"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/grants"
)

// retained revokes the pages below a prefix, which may stay until the end of
// their retention, and brings that to the indexer.
func (x *fixture) retained(prefix string) *Revocation {
	x.t.Helper()
	scope, err := grants.PrefixScope(prefix)
	check(x.t, err)
	signed, err := grants.SignRevocation(x.rel.Pair.Grant.RevokeScope(scope, grants.DispositionRetention),
		grants.Stamp{Indexer: x.rel.Indexer, Epoch: 1, Sequence: 1, At: x.s.Now}, x.s.Publisher.Envelope)
	check(x.t, err)
	v := &Revocation{Indexer: x.rel.Indexer, Signed: signed}
	check(x.t, v.write(x.p.dir))
	check(x.t, x.p.DeliverRevocations(x.t.Context(), x.rel.Indexer))
	return v
}

// forget has the indexer drop a page from what it holds.
func (f *fakeIndexer) forget(t testing.TB, url string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pages, url)
	root := rootOf(t, f.pages)
	f.held.StateRoot = root[:]
}

// TestADeletionThatCameSinceIsAskedAfter has pages go at the indexer, days after
// the revocation that said so. The next push hears of it, and compares nothing.
func TestADeletionThatCameSinceIsAskedAfter(t *testing.T) {
	x := newFixture(t)
	x.write("a", "first")
	x.write("old/b", "second")
	_, err := x.push()
	check(t, err)
	v := x.retained("https://example.com/doc/old/")
	if _, err := x.push(); err != nil || len(x.fake.acks) != 1 {
		t.Fatalf("%d acknowledgements, %v", len(x.fake.acks), err)
	}
	before := x.cursor()
	x.s.Now = x.s.Now.Add(time.Hour)
	x.fake.forget(t, "https://example.com/doc/old/b.html")
	results, err := x.push()
	if err != nil || results[0].Sent != 0 || results[0].Deleted != 0 || x.fake.batches != 1 {
		t.Errorf("pushed %+v in %d batches, %v", results, x.fake.batches, err)
	}
	after := x.cursor()
	if after.JournalEpoch != before.JournalEpoch || after.Acked != before.Acked || after.Pages != 1 || after.State == before.State {
		t.Errorf("the cursor was %+v and is %+v", before, after)
	}
	if v, err = x.p.Revocation(v.ID()); err != nil || v.open() {
		t.Errorf("acknowledged are %+v, %v", v.Acknowledgements, err)
	}
	x.write("a", "third")
	if _, err := x.push(); err != nil || x.fake.batches != 2 {
		t.Errorf("the next push: %v, %d batches", err, x.fake.batches)
	}
}

func TestTheEndOfARetentionIsAskedAfterOnceADay(t *testing.T) {
	now := time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)
	stop, gone := Acknowledgement{Series: "a", Type: "revoke-ack"}, Acknowledgement{Series: "a", Type: "delete-ack"}
	for _, tt := range []struct {
		name      string
		d         grants.Disposition
		acks      []Acknowledgement
		delivered time.Duration // how long ago
		asked     time.Duration
		want      bool
	}{
		{"a day after the last answer", grants.DispositionRetention, []Acknowledgement{stop}, 48 * time.Hour, 24 * time.Hour, true},
		{"a second before that", grants.DispositionRetention, []Acknowledgement{stop}, 48 * time.Hour, 24*time.Hour - time.Second, false},
		{"after more than a year", grants.DispositionRetention, []Acknowledgement{stop}, 367 * 24 * time.Hour, 24 * time.Hour, false},
		{"deleted", grants.DispositionRetention, []Acknowledgement{stop, gone}, 48 * time.Hour, 24 * time.Hour, false},
		{"nothing was reached", grants.DispositionRetention, nil, 48 * time.Hour, 24 * time.Hour, false},
		{"stopped as asked", grants.DispositionStop, []Acknowledgement{stop}, 48 * time.Hour, 24 * time.Hour, false},
		{"to be deleted now", grants.DispositionDelete, []Acknowledgement{stop}, time.Hour, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := Revocation{
				Signed: &grants.Revocation{Body: grants.RevocationBody{Disposition: tt.d}}, Acknowledgements: tt.acks,
				Delivered: envelope.At(now.Add(-tt.delivered)), Asked: envelope.At(now.Add(-tt.asked)),
			}
			if got := v.due(now); got != tt.want {
				t.Errorf("due = %t", got)
			}
		})
	}
}
