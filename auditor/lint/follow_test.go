package lint_test

import (
	"bytes"
	"testing"

	"github.com/uzpif-oi/uzpif-oi/auditor/lint"
	"github.com/uzpif-oi/uzpif-oi/auditor/zoo"
	"github.com/uzpif-oi/uzpif-oi/envelope"
	"github.com/uzpif-oi/uzpif-oi/internal/evaluate/stage"
	"github.com/uzpif-oi/uzpif-oi/translog"
)

// judgeAll takes the entries of a log in turn, and writes and reads the Checker
// before each if again is set.
func judgeAll(t testing.TB, l *zoo.Log, again bool) (found []lint.Violation, last []byte) {
	t.Helper()
	c := lint.NewChecker(false)
	for _, raw := range l.Entries {
		o, err := envelope.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		e := new(translog.Entry)
		if err := o.DecodeBody(e); err != nil {
			t.Fatal(err)
		}
		found = append(found, c.Judge(o, e, now)...)
		if last, err = c.Encode(); err != nil {
			t.Fatal(err)
		}
		if again {
			if c, err = lint.ParseChecker(last); err != nil {
				t.Fatal(err)
			}
		}
	}
	return found, last
}

func TestACheckerThatWasWrittenJudgesTheSame(t *testing.T) {
	s := stage.New(t, 1)
	for _, k := range append(zoo.Dishonest(stage.New(t, 2).Indexer), zoo.Kind{Name: "the honest log"}) {
		if k.Lie.Octets != nil || k.Lie.Drafts != nil && k.Rule != lint.Time && k.Rule != lint.Future {
			continue // not all of them can be read
		}
		l := zoo.Honest(t, s.Indexer, now, k.Lie)
		want, end := judgeAll(t, l, false)
		got, again := judgeAll(t, l, true)
		if len(got) != len(want) || !bytes.Equal(end, again) {
			t.Errorf("%s: found %v, and %v with breaks", k.Name, want, got)
		}
		if k.Name == "the honest log" && len(want) > 0 {
			t.Errorf("the honest log: %v", want)
		}
	}
}

// FuzzParseChecker reads what is no Checker, and judges an entry with what is.
func FuzzParseChecker(f *testing.F) {
	s := stage.New(f, 1)
	l := zoo.Honest(f, s.Indexer, now, zoo.Lie{})
	_, raw := judgeAll(f, l, false)
	f.Add(raw)
	f.Add([]byte(`{"grants":{},"collections":{}}`))
	o, err := envelope.Parse(l.Entries[len(l.Entries)-1])
	if err != nil {
		f.Fatal(err)
	}
	e := new(translog.Entry)
	if err := o.DecodeBody(e); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := lint.ParseChecker(raw)
		if err != nil {
			return
		}
		c.Judge(o, e, now)
		if again, err := c.Encode(); err == nil {
			if _, err := lint.ParseChecker(again); err != nil {
				t.Errorf("what was written is not read: %v", err)
			}
		}
	})
}
