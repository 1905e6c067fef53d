package indexer

import (
	"github.com/uzpif-oi/uzpif-oi/grants"
	oiv1 "github.com/uzpif-oi/uzpif-oi/proto/uzpif/oi/v1"
)

// wireFeedItem is an item as its message, without a put's payload.
func wireFeedItem(it *FeedItem) *oiv1.FeedItem {
	m := &oiv1.FeedItem{Cursor: it.Cursor}
	page := func() *oiv1.FeedPage {
		return &oiv1.FeedPage{Publisher: string(it.Publisher), Series: it.Series, UrlHash: it.URLHash[:]}
	}
	switch it.Op {
	case FeedPut:
		m.Item = &oiv1.FeedItem_Put{Put: wireFeedPut(it.Page, page())}
	case FeedDelete:
		m.Item = &oiv1.FeedItem_Delete{Delete: &oiv1.FeedDelete{Page: page(), Reason: string(it.Reason)}}
	case FeedStop:
		m.Item = &oiv1.FeedItem_Stop{Stop: &oiv1.FeedStop{Publisher: string(it.Publisher), Series: it.Series, Reason: string(it.Reason)}}
	case FeedReset:
		m.Item = &oiv1.FeedItem_Reset_{Reset_: &oiv1.FeedReset{Reason: string(it.Reason)}}
	default:
		m.Item = &oiv1.FeedItem_Head{Head: &oiv1.FeedHead{Time: seconds(it.Time)}}
	}
	return m
}

func wireFeedPut(p *Page, page *oiv1.FeedPage) *oiv1.FeedPut {
	return &oiv1.FeedPut{
		Page: page, Url: p.URL, Collection: p.Collection, Format: uint32(p.Format), Digest: p.Digest[:], Size: uint64(len(p.Payload)),
		Modified: seconds(p.ModifiedAt), Terms: wireTerms(&p.Terms),
		Evidence: &oiv1.FeedEvidence{
			LogOrigin: p.Entry.LogOrigin, Entry: p.Entry.Index, EntryId: p.Entry.ObjectID[:], Place: uint32(p.Entry.Place),
			Manifest: p.Entry.BatchID[:], GrantId: p.HeldUnder[:], PolicyHash: p.PolicyHash[:], JournalEpoch: p.JournalEpoch, Revision: p.Revision,
		},
	}
}

func wireTerms(t *Terms) *oiv1.FeedTerms {
	yes := func(p grants.Permission) bool { return p == grants.Allowed }
	return &oiv1.FeedTerms{
		Purposes: t.Purposes.Strings(), AttributionRequired: t.Attribution.Required, LinkBack: t.Attribution.LinkBack, Attribution: t.Attribution.Text,
		Snippets: yes(t.Derivatives.Snippets), Summary: yes(t.Derivatives.Summary), Embeddings: yes(t.Derivatives.Embeddings),
		OtherDerivatives: yes(t.Derivatives.Other), Redistribution: yes(t.Redistribution), TermsUrl: t.TermsURL,
		CopyUntil: seconds(t.CopyUntil), FeaturesUntil: seconds(t.FeaturesUntil), ExpiresAt: seconds(t.ExpiresAt),
	}
}
