package publisher

import (
	"context"
	"fmt"
	"os"

	"github.com/uzpif-oi/uzpif-oi/content"
	"github.com/uzpif-oi/uzpif-oi/content/arc"
)

// ARCOptions are what an export as ARC may be told besides.
type ARCOptions struct {
	Summaries bool   // no snapshots: agents read the pages themselves
	YAML      bool   // the sitemap in YAML as well
	Policy    string // file of an ARC policy to hand out; empty for none
	Rate      string // crawl_rate, such as 1/s; empty for none
	Contact   string // ai-crawl-contact
}

func (x *exporter) arc(ctx context.Context) error {
	c, err := x.arcConfig()
	if err != nil {
		return err
	}
	out, err := arc.OpenExport(c)
	if err != nil {
		return err
	}
	defer out.Close()
	for p, err := range x.pages(ctx) {
		if err == nil && p.Format == content.FormatSCP {
			p, err = x.asTCT(p)
		}
		if err == nil {
			err = out.Add(p)
		}
		if err != nil {
			return err
		}
	}
	done, err := out.Commit()
	x.report.Pages, x.report.Written, x.report.Removed = done.Pages, done.Written, done.Removed
	x.report.Delta, x.report.Withheld, x.report.Personal = done.Delta, done.Withheld, done.Personal
	for l, n := range done.Lost {
		x.report.Lost[l] += n
	}
	return err
}

func (x *exporter) arcConfig() (c arc.ExportConfig, err error) {
	o := x.o.ARC
	c = arc.ExportConfig{
		Dir: x.o.Dir, BaseURL: x.o.BaseURL, Generated: x.o.Generated, Summaries: o.Summaries, YAML: o.YAML, Contact: o.Contact,
	}
	if o.Rate != "" {
		if c.Rate, err = arc.ParseRate(o.Rate); err != nil {
			return c, err
		}
	}
	if o.Policy == "" {
		return c, nil
	}
	f, err := os.Open(o.Policy)
	if err != nil {
		return c, err
	}
	defer f.Close()
	policy, odd, err := arc.ReadPolicy(f, o.Policy)
	if err == nil && len(odd) > 0 {
		err = fmt.Errorf("policy %s: %s", o.Policy, odd[0])
	}
	c.Policy = &policy
	return c, err
}
