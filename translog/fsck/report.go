package fsck

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// A Kind is what a finding is about.
type Kind string

// The kinds of findings in a log. Those who check more add their own.
const (
	Entry      Kind = "entry"      // an entry is not what it has to be
	Tile       Kind = "tile"       // a tile contradicts what lies below it
	Root       Kind = "root"       // the entries give another root than the checkpoint
	Checkpoint Kind = "checkpoint" // a checkpoint is not what it has to be
	Set        Kind = "set"        // the kept hashes of a decision set
	Proof      Kind = "proof"      // a proof that was served does not verify
	Identity   Kind = "identity"   // another log, or one that does not say which
	Mark       Kind = "mark"       // the store is older than the high-water mark, or another
	Missing    Kind = "missing"    // something is not there
	Stray      Kind = "stray"      // something is there that has no place
	Unreadable Kind = "unreadable" // the store or the log could not read it
)

// A Finding is one thing that is not as it has to be. Index is that of an entry
// or page, Key says which row, file or path.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Index  uint64 `json:"index,omitzero"`
	Key    string `json:"key,omitempty"`
	Detail string `json:"detail"`
	Log    string `json:"log,omitempty"` // the origin of a log that has ended
	Rule   string `json:"-"`             // more exact than Kind, where something is
}

// String is the finding for people.
func (f Finding) String() string {
	s := fmt.Sprintf("%s: %s: %s", f.Kind, f.Key, strings.Join(strings.Fields(f.Detail), " "))
	if f.Log != "" {
		s = f.Log + ": " + s
	}
	return s
}

// A Report is what a check found. It counts what it looked at, in all logs of a
// store together; Origin, TreeSize and Root are those of the one that is alive.
type Report struct {
	Origin      string        `json:"log_origin"`
	TreeSize    uint64        `json:"tree_size"`
	Root        envelope.Hash `json:"root"`
	Entries     uint64        `json:"entries"`
	Tiles       uint64        `json:"tiles"`
	Checkpoints uint64        `json:"checkpoints"`
	Sets        uint64        `json:"sets"`
	Findings    []Finding     `json:"findings"`
	Unlisted    uint64        `json:"unlisted,omitzero"` // findings beyond Options.Limit

	// Of a log that was read over HTTP: the checkpoint published last, and the
	// first one of its size. Either may be missing.
	Newest *envelope.Object `json:"-"`
	Last   *Published       `json:"-"`

	limit int
	log   string // for the findings that follow
	found func(Finding)
}

// OK reports whether nothing was found.
func (r *Report) OK() bool { return len(r.Findings) == 0 && r.Unlisted == 0 }

// Found is the number of findings.
func (r *Report) Found() uint64 { return uint64(len(r.Findings)) + r.Unlisted }

// String is the report for people.
func (r *Report) String() string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintln(&b, f)
	}
	if r.Unlisted > 0 {
		fmt.Fprintf(&b, "and %d more findings\n", r.Unlisted)
	}
	if r.Origin == "" {
		b.WriteString("no checkpoint of the log could be read\n")
	} else {
		fmt.Fprintf(&b, "log %s, %d entries, root %s\n", r.Origin, r.TreeSize, r.Root)
	}
	fmt.Fprintf(&b, "checked: %d entries, %d tiles, %d checkpoints, %d decision sets; %d findings\n",
		r.Entries, r.Tiles, r.Checkpoints, r.Sets, r.Found())
	return b.String()
}

// Add adds a finding, or counts it if there are too many.
func (r *Report) Add(f Finding) {
	if r.found != nil {
		r.found(f)
	}
	if len(r.Findings) >= r.limit {
		r.Unlisted++
		return
	}
	f.Log = cmp.Or(f.Log, r.log)
	r.Findings = append(r.Findings, f)
}

func (r *Report) addf(kind Kind, index uint64, key, format string, args ...any) {
	r.Add(Finding{Kind: kind, Index: index, Key: key, Detail: fmt.Sprintf(format, args...)})
}

// Options of a check. VKey must be set.
type Options struct {
	// VKey is the log's verifier key.
	VKey string
	// Keys are those of the log's indexer, for entries and signed checkpoints.
	// nil checks no signature but those of notes.
	Keys envelope.KeySource
	// Signatures has the signature of each entry checked too, which takes most
	// of the time; those of checkpoints are checked anyhow.
	Signatures bool
	// Indexer, if it is set, is whose log it has to be.
	Indexer envelope.Name
	// Mark is the high-water mark of the store's living log, read before its
	// rows were; nil checks none. MarkRequired finds it missing if it is nil.
	Mark         *translog.Tree
	MarkRequired bool
	// Workers is how many bundles are worked on at once; 0 means one a core.
	Workers int
	// Limit is how many findings are listed; 0 means 1,000.
	Limit int
	// Progress, if it is set, is called now and then with how many of the
	// entries are done.
	Progress func(done, total uint64)
	// Visit, if it is set, is called with each entry of each log that could be
	// read, in order, by one goroutine.
	Visit func(log uint32, o *envelope.Object, e *translog.Entry)
	// Open, if it is set, reads and judges the entry at index in place of this
	// package, called by several goroutines. With an error, which may be a
	// *Flaw, it may still return what could be read, to be visited.
	Open func(raw []byte, index uint64) (*envelope.Object, *translog.Entry, error)
	// Found, if it is set, is called with each finding, also those beyond Limit.
	Found func(Finding)

	// What follows is for logs that are read over HTTP. From is where an earlier
	// check had come to: the entries before it are not read again, and Full is
	// called behind each full bundle with where this one has come to.
	From Frontier
	Full func(size uint64, f Frontier)
	// Ask is at how many sizes, the last ones, the log is asked for what it
	// published there; After is what was published last before them.
	Ask   uint64
	After *Published
}

// A Published is the checkpoint published first at a size, and when it was
// refreshed last.
type Published struct {
	ID        envelope.Hash `json:"id"`
	IssuedAt  envelope.Time `json:"issued_at"`
	Previous  envelope.Hash `json:"previous,omitzero"`
	Refreshed envelope.Time `json:"refreshed,omitzero"`
	Size      uint64        `json:"size"`
}

// A Flaw is what is wrong with an entry or checkpoint, and the rule it breaks.
type Flaw struct {
	Rule string
	Err  error
}

func (f *Flaw) Error() string { return f.Err.Error() }
func (f *Flaw) Unwrap() error { return f.Err }

// Flawf makes a Flaw.
func Flawf(rule, format string, args ...any) *Flaw { return &Flaw{rule, fmt.Errorf(format, args...)} }

// ruleOf is the rule that err names, if it names one.
func ruleOf(err error) string {
	if f := (*Flaw)(nil); errors.As(err, &f) {
		return f.Rule
	}
	return ""
}

func (o Options) withDefaults() Options {
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	o.Limit = cmp.Or(o.Limit, 1000)
	return o
}

func (o *Options) report() *Report {
	return &Report{Findings: []Finding{}, limit: o.Limit, found: o.Found}
}
