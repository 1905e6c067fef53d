package witness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Options are how a Group asks. Zero values mean the defaults.
type Options struct {
	// Timeout bounds one request to one witness, and what may follow it; 0
	// means 5 s.
	Timeout time.Duration
	// Rest is how long a witness is left alone after its first failure; it
	// doubles with each that follows, up to sixty-four times. 0 means 1 s.
	Rest time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// A Group asks the witnesses of a policy. It is safe for concurrent use.
type Group struct {
	policy *Policy
	o      Options
	http   *http.Client

	statesMu sync.Mutex
	states   []State // as in policy.Witnesses
}

// A State is what is known of one witness. It lives in memory: after a restart
// the first answer tells the size again.
type State struct {
	Name string
	// Size is that of the last tree that it cosigned for us or said it had
	// cosigned; 0 if that is not known.
	Size uint64
	// CosignedAt is the time of its last cosignature, by its own clock.
	CosignedAt time.Time
	// LastError is the failure since then; nil if there was none.
	LastError *Failure
	// Requests that ended, the time they took together and the last of them,
	// and how many failed, by reason.
	Requests uint64
	Seconds  float64
	Last     time.Duration
	Failures map[Reason]uint64

	cosigned  uint64 // how often
	failures  uint   // since it cosigned last
	restUntil time.Time
}

// NewGroup is a group that asks the witnesses of p, of which each needs a URL.
func NewGroup(p *Policy, o Options) (*Group, error) {
	o.Timeout, o.Rest = cmp.Or(o.Timeout, 5*time.Second), cmp.Or(o.Rest, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if len(p.Witnesses) == 0 {
		return nil, errors.New("the witness policy names no witness")
	}
	g := &Group{policy: p, o: o, http: newHTTPClient(o.Timeout)}
	for _, w := range p.Witnesses {
		if w.URL == "" {
			return nil, fmt.Errorf("witness %s has no URL, and a log has to ask it. Put its submission prefix behind its key", w.Name)
		}
		g.states = append(g.states, State{Name: w.Name, Failures: make(map[Reason]uint64)})
	}
	return g, nil
}

// Policy is what the group was made with.
func (g *Group) Policy() *Policy { return g.policy }

// Timeout bounds how long Gather takes.
func (g *Group) Timeout() time.Duration { return g.o.Timeout }

// Close gives up idle connections.
func (g *Group) Close() { g.http.CloseIdleConnections() }

// A Gathering is what the witnesses answered.
type Gathering struct {
	Cosignatures []Cosignature // in the order of the policy
	Failures     []*Failure    // of those that were asked, or rest
	Met          bool          // the cosignatures make the quorum
}

// Lines are the cosignatures as they are appended to the note.
func (r *Gathering) Lines() []byte {
	var b []byte
	for _, c := range r.Cosignatures {
		b = append(b, c.Line...)
	}
	return b
}

// answer is one witness's, on its way to Gather.
type answer struct {
	witness int
	c       Cosignature
	f       *Failure
}

// Gather asks every witness at once, each with its own bound, and returns when
// all have answered, when ctx has ended, or a tenth of the time-out after the
// quorum was reached, so that others may add theirs. Nothing that it began goes
// on after it.
func (g *Group) Gather(ctx context.Context, s Submission) Gathering {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, len(g.policy.Witnesses))
	for i := range g.policy.Witnesses {
		go func() {
			c, f := g.askOne(ctx, i, &s)
			answers <- answer{i, c, f}
		}()
	}
	byWitness := make([]*Cosignature, len(g.policy.Witnesses))
	var r Gathering
	for range g.policy.Witnesses { // each goroutine is waited for here
		a := <-answers
		if a.f != nil {
			r.Failures = append(r.Failures, a.f)
			continue
		}
		byWitness[a.witness] = &a.c
		r.Cosignatures = append(r.Cosignatures, a.c)
		if !r.Met && g.policy.Met(r.Cosignatures) {
			r.Met = true
			if !s.Everyone {
				late := time.AfterFunc(g.o.Timeout/10, cancel)
				defer late.Stop()
			}
		}
	}
	r.Cosignatures, r.Met = r.Cosignatures[:0], g.policy.Met(r.Cosignatures)
	for _, c := range byWitness {
		if c != nil {
			r.Cosignatures = append(r.Cosignatures, *c)
		}
	}
	return r
}

// askOne asks witness i, unless it rests, and enters the outcome.
func (g *Group) askOne(ctx context.Context, i int, s *Submission) (Cosignature, *Failure) {
	w := &g.policy.Witnesses[i]
	hint, f := g.hint(i)
	if f != nil {
		return Cosignature{}, f
	}
	start := time.Now()
	asking, cancel := context.WithTimeout(ctx, g.o.Timeout)
	c, seen, f := g.ask(asking, w, min(hint, s.Size), s)
	cancel()
	if f != nil && ctx.Err() != nil && (f.Reason == Timeout || f.Reason == Unreachable) {
		f.Reason = Resting // given up by us, which is no fault of its own
	}
	g.enter(i, c, seen, f, time.Since(start))
	return c, f
}

// hint is the size that witness i was last known to have cosigned.
func (g *Group) hint(i int) (uint64, *Failure) {
	g.statesMu.Lock()
	defer g.statesMu.Unlock()
	st := &g.states[i]
	if st.failures > 0 && g.o.Now().Before(st.restUntil) {
		f := fail(Resting, "it is left alone until %s, after: %w", st.restUntil.UTC().Format(time.RFC3339), st.LastError)
		g.label(i, f)
		return 0, f
	}
	return st.Size, nil
}

// label says whose failure it is. statesMu is held.
func (g *Group) label(i int, f *Failure) {
	f.Witness, f.Counts, f.First = g.states[i].Name, g.policy.Counts(i), g.states[i].cosigned == 0
}

func (g *Group) enter(i int, c Cosignature, seen uint64, f *Failure, took time.Duration) {
	g.statesMu.Lock()
	defer g.statesMu.Unlock()
	st := &g.states[i]
	if f != nil {
		g.label(i, f)
		if f.Reason == Resting {
			return
		}
	}
	st.Requests, st.Seconds, st.Last = st.Requests+1, st.Seconds+took.Seconds(), took
	if f == nil {
		st.Size, st.CosignedAt, st.LastError, st.failures = seen, c.At, nil, 0
		st.cosigned++
		return
	}
	if f.Reason == Ahead || f.Reason == Conflict {
		st.Size = seen
	}
	st.Failures[f.Reason]++
	st.LastError = f
	st.restUntil = g.o.Now().Add(g.o.Rest << min(st.failures, 6))
	st.failures++
}

// States is what is known of each witness, in the order of the policy.
func (g *Group) States() []State {
	g.statesMu.Lock()
	defer g.statesMu.Unlock()
	all := make([]State, len(g.states))
	for i, st := range g.states {
		st.Failures = make(map[Reason]uint64, len(g.states[i].Failures))
		for r, n := range g.states[i].Failures {
			st.Failures[r] = n
		}
		all[i] = st
	}
	return all
}
